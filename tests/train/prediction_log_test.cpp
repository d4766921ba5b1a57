#include "train/loop/prediction_log.h"

#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/manual_clock.h"

namespace trainctl::train {
namespace {

class Documents final : public tracking::Sink {
 public:
  void on(const tracking::Event& event) override {
    if (const auto* predicted = std::get_if<tracking::SamplesPredicted>(&event))
      all.push_back(nlohmann::json::parse(predicted->document));
  }
  std::vector<nlohmann::json> all;
};

task::Examples examples(double loss) {
  return {.first = {{.sample = 3, .input = at::zeros({1, 2, 2}), .loss = loss, .target = 1, .answer = 0, .score = 0.5}},
          .worst = {}};
}

dataset::SampleSpec spec() {
  return {.num_classes = 2, .class_names = {"cat", "dog"}};
}

TEST_CASE("predictions are passed on at most every ten seconds, and at the end", "[train]") {
  testing::ManualClock clock;
  Documents sink;
  PredictionLog log(spec(), sink, {}, clock.now());
  log.take(1, examples(1));
  CHECK(sink.all.size() == 1);
  log.take(2, examples(2));
  log.take(3, examples(3));
  CHECK(sink.all.size() == 1);
  clock.advance(std::chrono::seconds(11));
  log.take(4, examples(4));
  REQUIRE(sink.all.size() == 2);
  CHECK(sink.all.back()["step"] == 4);
  log.take(5, examples(5));
  log.flush();
  log.flush();
  REQUIRE(sink.all.size() == 3);
  CHECK(sink.all.back()["first"][0] ==
        nlohmann::json{{"sample", 3}, {"loss", 5.0}, {"label", "dog"}, {"prediction", "cat"}, {"score", 0.5}});
}

TEST_CASE("a sample that can't be shown has its answer", "[train]") {
  Documents sink;
  PredictionLog log(spec(), sink, [](const task::Example&) -> nlohmann::ordered_json { throw core::Error("no"); });
  log.take(1, examples(NAN));
  REQUIRE(sink.all.size() == 1);
  const nlohmann::json& first = sink.all[0]["first"][0];
  CHECK(first["not_shown"] == "no");
  CHECK(first["loss"].is_null());
  CHECK(first["prediction"] == "cat");
}

}  // namespace
}  // namespace trainctl::train

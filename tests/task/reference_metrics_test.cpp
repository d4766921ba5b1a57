// Expected values: tests/golden/metrics.json, which tests/reference/scikit_metrics.py wrote with scikit-learn 1.9.1.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "task/ranking.h"
#include "task/task.h"

namespace trainctl::task::reference_metrics_test {
namespace {

constexpr double kTolerance = 2e-6;  // logits and losses are floats, sums are doubles

/// Gives its input back as its output: logits, or predicted numbers.
class Echo final : public model::Model {
 public:
  Echo() { add_block("echo", child<Same>("echo")); }
  double flops_per_sample() const override { return 0; }
  bool prefers_channels_last() const override { return false; }

 private:
  class Same final : public model::UnaryLayer {
   public:
    at::Tensor compute(const at::Tensor& input) override { return input; }
  };
};

nlohmann::json golden() {
  return nlohmann::json::parse(core::read_file(TRAINCTL_SOURCE_DIR "/tests/golden/metrics.json"));
}

/// Another rank's samples, as tests/train has them with real ranks.
class TwoRanks final : public Pool {
 public:
  c10::Device device() const override { return at::kCPU; }
  void sum(at::Tensor& value) override { tensors.push_back(value); }
  void sum(std::int64_t& value) override { counts.push_back(value); }
  std::vector<at::Tensor> gather(const at::Tensor& rows) override {
    gathered.push_back(rows);
    return {rows};
  }
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> counts;
  std::vector<at::Tensor> gathered;
};

TEST_CASE("metrics of classes are scikit-learn's", "[task]") {
  const nlohmann::json cases = golden();
  for (const nlohmann::json& sample : cases["classification"]) {
    const auto num_classes = sample["num_classes"].get<std::int64_t>();
    ClassificationConfig config;
    const std::vector<std::string_view> names = config::names_of<ClassificationMetric>();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (sample["expected"].contains(names[i])) config.metrics.push_back(static_cast<ClassificationMetric>(i));
    dataset::SampleSpec spec;
    spec.input_shape = {num_classes};
    spec.num_classes = num_classes;
    Echo model;
    const auto evaluation = build(TaskConfig(config), spec)->evaluate(model, spec);
    const auto labels = sample["labels"].get<std::vector<std::int64_t>>();
    for (std::size_t begin = 0; begin < labels.size(); begin += 7) {  // batches of seven, and a shorter last one
      const std::size_t end = std::min(labels.size(), begin + 7);
      std::vector<float> logits;
      for (std::size_t i = begin; i < end; ++i)
        for (const float logit : sample["logits"][i].get<std::vector<float>>()) logits.push_back(logit);
      const std::vector<std::int64_t> own(labels.begin() + static_cast<std::ptrdiff_t>(begin),
                                          labels.begin() + static_cast<std::ptrdiff_t>(end));
      evaluation->add({.inputs = at::tensor(logits).view({-1, num_classes}), .targets = at::tensor(own)});
    }
    const Metrics metrics = evaluation->metrics();
    CHECK(metrics.size() == sample["expected"].size());
    for (const auto& [name, value] : metrics) {
      CAPTURE(num_classes, name);
      CHECK(std::abs(value - sample["expected"].at(name).get<double>()) < kTolerance);
    }
  }
}

TEST_CASE("metrics of numbers are scikit-learn's", "[task]") {
  const nlohmann::json sample = golden()["regression"];
  RegressionConfig config;
  for (std::size_t i = 0; i < config::names_of<RegressionMetric>().size(); ++i)
    config.metrics.push_back(static_cast<RegressionMetric>(i));
  dataset::SampleSpec spec;
  spec.input_shape = {1};
  spec.targets = dataset::Targets::values;
  Echo model;
  const auto evaluation = build(TaskConfig(config), spec)->evaluate(model, spec);
  evaluation->add({.inputs = at::tensor(sample["predicted"].get<std::vector<float>>()).view({-1, 1}),
                   .targets = at::tensor(sample["targets"].get<std::vector<float>>())});
  const Metrics metrics = evaluation->metrics();
  CHECK(metrics.size() == sample["expected"].size());
  for (const auto& [name, value] : metrics) {
    CAPTURE(name);
    CHECK(std::abs(value - sample["expected"].at(name).get<double>()) < kTolerance);
  }
}

/// Returns a list of lists as one tensor of floats.
at::Tensor rows_of(const nlohmann::json& rows) {
  std::vector<at::Tensor> tensors;
  if (rows.front().is_number()) return at::tensor(rows.get<std::vector<float>>());
  for (const nlohmann::json& row : rows) tensors.push_back(rows_of(row));
  return at::stack(tensors);
}

/// Returns a config that asks for all metrics of its task.
template <class Config, class Metric>
Config with_all(std::vector<Metric> Config::*metrics) {
  Config config;
  for (std::size_t i = 0; i < config::names_of<Metric>().size(); ++i)
    (config.*metrics).push_back(static_cast<Metric>(i));
  return config;
}

void check_expected(Evaluation& evaluation, const nlohmann::json& expected) {
  const Metrics metrics = evaluation.metrics();
  CHECK(metrics.size() == expected.size());
  for (const auto& [name, value] : metrics) {
    CAPTURE(name);
    CHECK(std::abs(value - expected.at(name).get<double>()) < kTolerance);
  }
}

TEST_CASE("metrics of samples with several labels are scikit-learn's", "[task]") {
  const nlohmann::json cases = golden();
  for (const nlohmann::json& sample : cases["multi_label"]) {
    auto config = with_all(&MultiLabelClassificationConfig::metrics);
    config.threshold = sample["threshold"];
    const at::Tensor logits = rows_of(sample["logits"]);
    const at::Tensor labels = rows_of(sample["labels"]).to(at::kLong);
    dataset::SampleSpec spec;
    spec.num_classes = logits.size(1);
    spec.targets = dataset::Targets::label_sets;
    Echo model;
    const auto evaluation = build(TaskConfig(config), spec)->evaluate(model, spec);
    for (std::int64_t begin = 0; begin < logits.size(0); begin += 7) {
      const std::int64_t count = std::min<std::int64_t>(7, logits.size(0) - begin);
      evaluation->add({.inputs = logits.narrow(0, begin, count), .targets = labels.narrow(0, begin, count)});
    }
    check_expected(*evaluation, sample["expected"]);
  }
}

TEST_CASE("metrics of pixels are scikit-learn's, over all pixels that have a class", "[task]") {
  const nlohmann::json cases = golden();
  for (const nlohmann::json& sample : cases["segmentation"]) {
    dataset::SampleSpec spec;
    spec.num_classes = sample["num_classes"];
    spec.targets = dataset::Targets::class_masks;
    Echo model;
    const auto config = with_all(&SemanticSegmentationConfig::metrics);
    const auto evaluation = build(TaskConfig(config), spec)->evaluate(model, spec);
    const at::Tensor logits = rows_of(sample["logits"]);
    const at::Tensor targets = rows_of(sample["targets"]).to(at::kLong);
    for (std::int64_t i = 0; i < logits.size(0); ++i) {
      const at::Tensor own = targets.narrow(0, i, 1);
      evaluation->add({.inputs = logits.narrow(0, i, 1), .targets = own.masked_fill(own.lt(0), -100)});
    }
    check_expected(*evaluation, sample["expected"]);
  }
}

TEST_CASE("scores that all tie rank nothing", "[task]") {
  const RankingMetrics tied = ranking_metrics({{1, true}, {1, false}, {1, false}, {1, true}});
  CHECK(tied.auroc == 0.5);
  CHECK(tied.average_precision == 0.5);
  const RankingMetrics perfect = ranking_metrics({{-INFINITY, false}, {2, true}, {INFINITY, true}});
  CHECK(perfect.auroc == 1);
  CHECK(perfect.average_precision == 1);
  CHECK(std::isnan(ranking_metrics({{1, true}, {2, true}}).auroc));
  CHECK(std::isnan(ranking_metrics({{1, false}}).average_precision));
  CHECK(std::isnan(ranking_metrics({{1, false}, {NAN, true}}).auroc));
}

TEST_CASE("a rank gives its samples' scores to the others only if a metric ranks them", "[task]") {
  dataset::SampleSpec spec;
  spec.num_classes = 2;
  Echo model;
  const dataset::Batch batch{.inputs = at::tensor({30.0F, 0.0F, 0.0F, 40.0F}).view({2, 2}),
                             .targets = at::tensor({std::int64_t{0}, std::int64_t{1}})};
  const auto pooled = [&](const ClassificationConfig& config) {
    TwoRanks pool;
    const auto evaluation = build(TaskConfig(config), spec)->evaluate(model, spec);
    evaluation->add(batch);
    evaluation->pool(pool);
    return pool.gathered;
  };
  CHECK(pooled({}).empty());
  const std::vector<at::Tensor> scores = pooled({.metrics = {ClassificationMetric::auroc}});
  REQUIRE(scores.size() == 1);
  CHECK(scores[0].sizes() == at::IntArrayRef({2, 2}));
  CHECK(scores[0][0][1].item<double>() == Approx(-30));
  CHECK(scores[0][1][1].item<double>() == Approx(40));  // this probability is 1, also in double
}

TEST_CASE("the usual metrics depend on the classes, and watched metrics join them", "[task]") {
  using Metric = ClassificationMetric;
  const auto chosen = [](std::int64_t num_classes, const std::vector<std::string>& watched) {
    dataset::SampleSpec spec;
    spec.num_classes = num_classes;
    return with_metrics(ClassificationConfig{}, spec, watched).get_if<ClassificationConfig>()->metrics;
  };
  CHECK(chosen(2, {}) == std::vector{Metric::accuracy, Metric::f1, Metric::f1_macro, Metric::matthews});
  CHECK(chosen(20, {}) == std::vector{Metric::accuracy, Metric::f1_macro, Metric::matthews});
  CHECK(chosen(21, {}) == std::vector{Metric::accuracy, Metric::top5_accuracy, Metric::f1_macro, Metric::matthews});
  CHECK(chosen(20, {"loss", "auroc", "accuracy", "auroc"}) ==
        std::vector{Metric::accuracy, Metric::f1_macro, Metric::matthews, Metric::auroc});
  CHECK_THROWS_WITH(chosen(3, {"f1"}),
                    Catch::Contains("f1 is of the second of two classes") && Catch::Contains("expected f1_macro"));
  CHECK_THROWS_WITH(chosen(5, {"top5_accuracy"}), Catch::Contains("top5_accuracy is 1 for every model"));
}

}  // namespace
}  // namespace trainctl::task::reference_metrics_test

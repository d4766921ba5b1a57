#include "inference/predict.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"

namespace trainctl::inference {
namespace {

TEST_CASE("labels are those from the threshold on, and probabilities are sigmoids", "[inference]") {
  const auto answers =
      make_answers(task::MultiLabelClassificationConfig{.threshold = 0.7}, {.class_names = {"a", "b", "c"}, .top = 2});
  const nlohmann::ordered_json answer = answers->of(at::tensor({0.5F, 2.0F, -3.0F}), {});
  CHECK(answer["labels"] == nlohmann::ordered_json::array({"b"}));
  CHECK(answer["scores"].size() == 2);
  CHECK(answer["scores"]["b"].get<double>() == Approx(1 / (1 + std::exp(-2.0))));
  CHECK(answer["scores"]["a"].get<double>() == Approx(1 / (1 + std::exp(-0.5))));
  CHECK_THROWS_WITH(answers->of(at::full({3}, NAN), {}), Catch::Contains("NaN"));
}

TEST_CASE("a mask has the likeliest class of each pixel, and goes where the caller saves it", "[inference]") {
  at::Tensor scores = at::zeros({3, 2, 2});
  scores[1].fill_(1);
  scores[2][0][1] = 2;
  at::Tensor saved;
  const auto save = [&](const std::string& image, const at::Tensor& classes) {
    saved = classes;
    return image + ".png";
  };
  const PredictionInput input{.values = {}, .name = "x"};
  const nlohmann::ordered_json answer =
      make_answers(task::SemanticSegmentationConfig{}, {.class_names = {"a", "b", "c"}, .save_mask = save})
          ->of(scores, input);
  CHECK(answer["mask"] == "x.png");
  CHECK(answer["shares"] == nlohmann::ordered_json{{"b", 0.75}, {"c", 0.25}});
  CHECK(saved.scalar_type() == at::kByte);
  CHECK(saved.equal(at::tensor({1, 2, 1, 1}).view({2, 2}).to(at::kByte)));
  const auto plain = make_answers(task::SemanticSegmentationConfig{}, {});
  CHECK_FALSE(plain->of(scores, input).contains("mask"));
}

TEST_CASE("a number or a text whose outputs aren't finite has no answer", "[inference][regression]") {
  const auto number = make_answers(task::RegressionConfig{}, {});
  CHECK(number->of(at::tensor({2.5F}), {})["value"] == 2.5);
  CHECK_THROWS_WITH(number->of(at::tensor({NAN}), {}), Catch::Contains("NaN"));
  CHECK_THROWS_WITH(number->of(at::tensor({INFINITY}), {}), Catch::Contains("infinite"));
  at::Tensor logits = at::zeros({2, 3});
  logits[0][1].fill_(NAN);
  CHECK_THROWS_WITH(make_answers(task::CausalLmConfig{}, {})->of(logits, {}), Catch::Contains("NaN"));
}

}  // namespace
}  // namespace trainctl::inference

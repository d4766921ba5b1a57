// What a rule does on its way against the same one after another.
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <catch2/catch.hpp>

#include "optimizer/optimizer.h"

namespace trainctl::optimizer::on_the_way_test {
namespace {

std::vector<OptimizedParameter> copies(const std::vector<at::Tensor>& values) {
  std::vector<OptimizedParameter> parameters;
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters.push_back({"p" + std::to_string(i), values[i].clone().requires_grad_()});
  return parameters;
}

void set_gradients(const std::vector<OptimizedParameter>& parameters, const std::vector<at::Tensor>& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) parameters[i].tensor.mutable_grad() = gradients[i].clone();
}

/// Values of one type, and of one parameter in another memory layout.
void check(const OptimizerConfig& config, at::ScalarType type) {
  const std::vector<at::Tensor> values{at::randn({4, 6}, type), at::randn({6}, type), at::randn({3, 5}, type).t(),
                                       at::randn({7}, type)};
  std::vector<OptimizedParameter> one = copies(values), other = copies(values);
  const std::unique_ptr<Optimizer> in_turn = build(config, one), on_the_way = build(config, other);
  REQUIRE(on_the_way->works_on_the_way());
  const EmaConfig averaging{.decay = 0.9, .every = 2, .start = 1};
  Ema of_one(averaging, one), of_other(averaging, other);
  int followed = 0;
  for (std::int64_t step = 0; step < 8; ++step) {
    std::vector<at::Tensor> gradients{at::randn({4, 6}, type), at::randn({6}, type), at::randn({3, 5}, type).t(),
                                      step % 3 == 0 ? at::Tensor() : at::randn({7}, type)};
    const at::Tensor found_inf = at::full({1}, step == 5 ? 1.0 : 0.0, at::kFloat);
    const at::Tensor factor = at::full({}, 0.25 + static_cast<double>(step), at::kFloat);
    set_gradients(one, gradients);
    scale(gradients_of(one), factor);
    in_turn->step(0.01, found_inf);
    of_one.update(step);

    set_gradients(other, gradients);
    const std::optional<FollowingAverages> averages = of_other.begin_update(step);
    on_the_way->step_on_the_way(0.01, found_inf, {.factor = factor, .averages = averages ? &*averages : nullptr});
    averages ? static_cast<void>(++followed) : of_other.update(step);
    for (std::vector<OptimizedParameter>* parameters : {&one, &other}) zero_grad(*parameters);
  }
  CHECK(followed == 3);  // after steps 3, 5 and 7; step 1 copies
  const auto compare = [&] {
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(other[i].tensor.allclose(one[i].tensor, 1e-6, 1e-7));
  };
  compare();
  of_one.swap();
  of_other.swap();
  compare();
}

TEST_CASE("Adam scales gradients and moves averages on its way", "[optimizer]") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    check({.rule = AdamWConfig{}, .weight_decay = 0.1}, type);
    check({.rule = AdamConfig{.amsgrad = true}, .weight_decay = 0.1}, type);
  }
}

TEST_CASE("a rule that does nothing on its way says so", "[optimizer]") {
  const std::vector<OptimizedParameter> parameters = copies({at::randn({3})});
  CHECK(!build({.rule = AdamWConfig{.fused = false}}, parameters)->works_on_the_way());
  CHECK(!build({.rule = SgdConfig{}}, parameters)->works_on_the_way());
}

}  // namespace
}  // namespace trainctl::optimizer::on_the_way_test

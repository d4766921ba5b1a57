// Our batch normalization against LibTorch's in double precision.
#include "kernels/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/exactness.h"
#include "kernels/portable.h"

namespace trainctl::kernels::batch_norm_test {
namespace {

constexpr double kEps = 1e-5;

at::Tensor images(std::vector<std::int64_t> shape) {
  return at::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor plain(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& add,
                 bool relu) {
  at::Tensor y = at::batch_norm(x, weight, bias, {}, {}, /*training=*/true, 0.1, kEps, false);
  if (add.defined()) y = y.add(add);
  return relu ? at::relu(y) : y;
}

struct After {
  bool add;
  bool relu;
};

/// Compares output, statistics and gradients with exact ones. An error may be 2e-6, or twice that of LibTorch's floats
/// where the problem itself magnifies rounding.
void check(const at::Tensor& input, const After& after) {
  constexpr double kTolerance = 2e-6;
  INFO(input.sizes() << (after.add ? " + residual" : "") << (after.relu ? ", ReLU" : ""));
  const std::int64_t channels = input.size(1);
  std::vector<at::Tensor> inputs{input.detach(), at::rand({channels}).add_(0.5), at::randn({channels})};
  if (after.add) inputs.push_back(at::randn_like(input));
  std::vector<at::Tensor> exact;
  for (at::Tensor& tensor : inputs) {
    tensor = tensor.detach().requires_grad_(true);
    exact.push_back(exactly(tensor));
  }
  const BatchNormResult actual =
      batch_norm(inputs[0], inputs[1], inputs[2], kEps,
                 {.add = after.add ? std::optional(inputs[3]) : std::nullopt, .relu = after.relu});
  const at::Tensor expected = plain(exact[0], exact[1], exact[2], after.add ? exact[3] : at::Tensor(), after.relu);
  REQUIRE(actual.output.sizes() == expected.sizes());
  const at::Tensor theirs = plain(inputs[0], inputs[1], inputs[2], after.add ? inputs[3] : at::Tensor(), after.relu);
  CHECK(error_of(actual.output, expected) <= std::max(kTolerance, 2 * error_of(theirs, expected)));
  const at::Tensor columns = exact[0].detach().transpose(0, 1).reshape({channels, -1});
  CHECK(error_of(actual.mean, columns.mean(1)) <= kTolerance);
  CHECK(error_of(actual.variance, columns.var(1)) <= kTolerance);
  CHECK_FALSE(actual.mean.requires_grad());

  const at::Tensor cotangent = at::randn_like(input);
  const auto wanted = torch::autograd::grad({expected}, exact, {cotangent.to(at::kDouble)});
  const auto floats = torch::autograd::grad({theirs}, inputs, {cotangent});
  const auto given = torch::autograd::grad({actual.output}, inputs, {cotangent});
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO("gradient " << i);
    REQUIRE(given[i].sizes() == wanted[i].sizes());
    CHECK(error_of(given[i], wanted[i]) <= std::max(kTolerance, 2 * error_of(floats[i], wanted[i])));
  }
}

TEST_CASE("batch normalization with what follows it, and its gradients, are the exact ones", "[kernels]") {
  for (const bool add : {false, true})
    for (const bool relu : {false, true}) {
      check(images({2, 16, 1, 1}), {add, relu});
      check(images({3, 48, 5, 7}), {add, relu});
      check(images({4, 64, 9, 1}), {add, relu});
      check(images({2, 512, 4, 4}), {add, relu});
      check(images({16, 32, 28, 28}), {add, relu});
      check(at::randn({33, 32}), {add, relu});
    }
}

TEST_CASE("batch normalization is exact far from 0, where sums of squares would cancel", "[kernels]") {
  check(images({8, 32, 12, 12}).add_(1000), {.add = false, .relu = false});
  check(images({8, 32, 12, 12}).mul_(1e-3), {.add = true, .relu = true});
  check(images({8, 32, 12, 12}).mul_(1e15), {.add = false, .relu = true});
  const at::Tensor constant = images({4, 32, 6, 6}).fill_(3);
  const at::Tensor ones = at::randn({32}).fill_(1);
  CHECK(batch_norm(constant, ones, ones, kEps).output.sub(1).abs().max().item<double>() == 0);
}

TEST_CASE("batch normalization's gradient is the slope of its output", "[kernels]") {
  const at::Tensor x = images({4, 16, 5, 5}).requires_grad_(true), weight = at::rand({16}).add_(0.5),
                   bias = at::randn({16}), cotangent = at::randn_like(x), step = at::randn_like(x.detach());
  const auto loss = [&](const at::Tensor& input) {
    return batch_norm(input, weight, bias, kEps).output.to(at::kDouble).mul(cotangent).sum().item<double>();
  };
  constexpr double kStep = 1e-2;
  const at::Tensor to = step.mul(kStep);
  const double measured = (loss(x.detach().add(to)) - loss(x.detach().sub(to))) / (2 * kStep);
  const at::Tensor slope = torch::autograd::grad({batch_norm(x, weight, bias, kEps).output}, {x}, {cotangent})[0];
  CHECK(slope.mul(step).sum().item<double>() == Approx(measured).epsilon(2e-3));
}

TEST_CASE("batch normalization's bits don't depend on the number of threads", "[kernels]") {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> inputs{images({8, 64, 11, 11}), at::rand({64}), at::randn({64})};
  for (at::Tensor& tensor : inputs) tensor.requires_grad_(true);
  const at::Tensor cotangent = at::randn_like(inputs[0].detach());
  const auto run = [&](int with) {
    at::set_num_threads(with);
    const BatchNormResult result = batch_norm(inputs[0], inputs[1], inputs[2], kEps, {.add = inputs[0], .relu = true});
    auto all = torch::autograd::grad({result.output}, inputs, {cotangent});
    all.insert(all.end(), {result.output.detach(), result.mean, result.variance});
    return all;
  };
  const auto one = run(1), three = run(3);
  at::set_num_threads(threads);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i].equal(three[i]));
}

TEST_CASE("a value that is not a number spoils its channel alone, through ReLU as well", "[kernels]") {
  const at::Tensor x = images({2, 32, 4, 4});
  x.select(0, 0).select(0, 3).select(0, 1).narrow(0, 2, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor ones = at::rand({32});
  const at::Tensor is_nan = batch_norm(x, ones, ones, kEps, {.relu = true}).output.isnan();
  CHECK(is_nan.select(1, 3).all().item<bool>());
  CHECK(is_nan.sum().item<std::int64_t>() == 2 * 16);
}

TEST_CASE("batch normalization takes whole vectors of float channels that lie side by side", "[kernels]") {
  const auto suits = [](const at::Tensor& x) { return suits_batch_norm(x, at::rand({x.size(1)})); };
  REQUIRE(suits(images({2, 32, 4, 4})));
  CHECK(suits(at::randn({4, 32})));
  CHECK_FALSE(suits(at::randn({2, 32, 4, 4})));
  CHECK_FALSE(suits(images({2, 24, 4, 4})));
  CHECK_FALSE(suits(images({2, 32, 4, 4}).to(at::kDouble)));
  CHECK_FALSE(suits(images({2, 32, 4, 4}).to(at::kBFloat16)));
  CHECK_FALSE(suits(at::randn({2, 32, 4})));
  const PortableOperators portable;
  CHECK_FALSE(suits(images({2, 32, 4, 4})));
}

}  // namespace
}  // namespace trainctl::kernels::batch_norm_test

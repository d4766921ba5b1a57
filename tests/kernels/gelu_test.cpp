// GELU and the bias before it, against LibTorch's in double precision.
#include "kernels/gelu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/special_erfc.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/exactness.h"

namespace trainctl::kernels::gelu_test {
namespace {

constexpr double kTolerance = 5e-7;

at::Tensor plain(const at::Tensor& input, const at::Tensor& bias, Gelu form) {
  return at::gelu(bias.defined() ? input.add(bias) : input, form == Gelu::tanh ? "tanh" : "none");
}

void check(at::Tensor input, at::Tensor bias, Gelu form) {
  INFO(input.sizes() << (bias.defined() ? ", bias" : "") << (form == Gelu::tanh ? ", tanh" : ", erf"));
  std::vector<at::Tensor> inputs{input.requires_grad_(true)};
  if (bias.defined()) inputs.push_back(bias.requires_grad_(true));
  const at::Tensor cotangent = at::randn_like(input);
  const at::Tensor x = exactly(input), shift = exactly(bias);
  const at::Tensor exact = plain(x, shift, form);
  const at::Tensor actual = bias_gelu(input, bias, form);
  CHECK(error_of(actual, exact) <= kTolerance);
  const auto wanted = torch::autograd::grad({exact}, bias.defined() ? std::vector{x, shift} : std::vector{x},
                                            {cotangent.to(at::kDouble)});
  const auto given = torch::autograd::grad({actual}, inputs, {cotangent});
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(error_of(given[i], wanted[i]) <= 4 * kTolerance);
}

TEST_CASE("GELU with a bias is exact to floats", "[kernels]") {
  for (const Gelu form : {Gelu::erf, Gelu::tanh})
    for (const std::int64_t size : {1, 3, 16, 31, 50, 3000}) {
      check(at::randn({3, 7, size}).mul_(3), at::randn({size}), form);
      check(at::randn({3, 7, size}).mul_(3), {}, form);
    }
  check(at::randn({60, 21}).t(), at::randn({60}), Gelu::erf);
}

TEST_CASE("GELU is exact relative to its own size, down to where that vanishes", "[kernels]") {
  const at::Tensor x = at::linspace(-12, 12, 4001, at::kFloat);
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor exact = wide.mul(0.5).mul(at::special_erfc(wide.mul(-std::sqrt(0.5))));
  const at::Tensor actual = gelu(x, Gelu::erf).to(at::kDouble);
  CHECK(actual.sub(exact).div(exact.abs().add(1e-30)).abs().max().item<double>() <= 2e-5);
  // Near zero, where rounding of the exponent doesn't count:
  const at::Tensor near = x.abs().le(3);
  CHECK(actual.sub(exact).div(exact.abs().add(1e-30)).abs().masked_select(near).max().item<double>() <= 2e-6);
}

TEST_CASE("GELU of extreme values is finite, and so is its slope", "[kernels]") {
  for (const Gelu form : {Gelu::erf, Gelu::tanh}) {
    const at::Tensor extremes = at::linspace(-1000, 1000, 33, at::kFloat).requires_grad_(true);
    const at::Tensor actual = gelu(extremes, form);
    CHECK(error_of(actual, plain(exactly(extremes), {}, form)) <= kTolerance);
    actual.sum().backward();
    // 1 on the right, 0 on the left, and half at zero, where the middle of these is.
    CHECK(error_of(extremes.grad(), extremes.detach().sign().add(1).div(2)) <= kTolerance);
  }
}

TEST_CASE("GELU's gradient is the slope of its function", "[kernels]") {
  for (const Gelu form : {Gelu::erf, Gelu::tanh}) {
    const std::vector<at::Tensor> x{at::randn({6, 33}).requires_grad_(true), at::randn({33}).requires_grad_(true)};
    const std::vector<at::Tensor> direction{at::randn({6, 33}), at::randn({33})};
    const at::Tensor cotangent = at::randn({6, 33});
    const auto gradients = torch::autograd::grad({bias_gelu(x[0], x[1], form)}, x, {cotangent});
    const double slope = finite_difference(
        [&](const auto& at_x) { return plain(at_x[0], at_x[1], form).mul(cotangent).sum(); }, x, direction);
    CHECK(std::abs(along(gradients, direction) - slope) <= 1e-4 * std::max(1.0, std::abs(slope)));
  }
}

TEST_CASE("GELU's bits don't depend on the number of threads", "[kernels]") {
  const at::Tensor input = at::randn({300, 70}).requires_grad_(true), bias = at::randn({70}).requires_grad_(true);
  const auto gradients = [&] {
    return torch::autograd::grad({bias_gelu(input, bias, Gelu::erf).square().sum()}, {input, bias});
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = gradients();
  at::set_num_threads(threads);
  const auto together = gradients();
  for (std::size_t i = 0; i < 2; ++i) CHECK(alone[i].equal(together[i]));
}

TEST_CASE("GELU of doubles is LibTorch's", "[kernels]") {
  const at::Tensor input = at::randn({5, 9}, at::kDouble), bias = at::randn({9}, at::kDouble);
  for (const Gelu form : {Gelu::erf, Gelu::tanh}) CHECK(bias_gelu(input, bias, form).equal(plain(input, bias, form)));
}

}  // namespace
}  // namespace trainctl::kernels::gelu_test

// The CPU's kernels for bf16 are those for floats, rounded once at their end. What those are is tested beside this.
#include <ATen/autocast_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/exactness.h"
#include "kernels/gelu.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/rotary.h"
#include "kernels/softmax_gradient.h"
#include "kernels/swiglu.h"

namespace trainctl::kernels::bfloat16_test {
namespace {

constexpr double kRounding = 0x1p-8;  // largest relative error of one rounding to bf16

at::Tensor drawn(const std::vector<std::int64_t>& shape) {
  return at::randn(shape).mul_(2).to(at::kBFloat16);
}

/// The values as floats, which require a gradient.
at::Tensor widened(const at::Tensor& tensor) {
  return tensor.detach().to(at::kFloat, false, /*copy=*/true).requires_grad_(true);
}

/// Equal values of one type; what is not a number equals another that isn't.
bool same(const at::Tensor& left, const at::Tensor& right) {
  return left.scalar_type() == right.scalar_type() &&
         left.eq(right).logical_or_(left.isnan().logical_and_(right.isnan())).all().item<bool>();
}

/// Compares a function of bf16 with itself of the same floats. Its other inputs are floats in both, and so are their
/// gradients.
template <class Function>
void check(const Function& function, std::vector<at::Tensor> narrow, const std::vector<at::Tensor>& floats = {}) {
  std::vector<at::Tensor> wide;
  for (at::Tensor& tensor : narrow) {
    wide.push_back(widened(tensor));
    tensor.requires_grad_(true);
  }
  for (const at::Tensor& tensor : floats) {
    wide.push_back(widened(tensor));
    narrow.push_back(widened(tensor));
  }
  const at::Tensor actual = function(narrow), expected = function(wide);
  REQUIRE(actual.scalar_type() == at::kBFloat16);
  CHECK(same(actual, expected.to(at::kBFloat16)));
  const at::Tensor cotangent = at::randn_like(actual);
  const auto given = torch::autograd::grad({actual}, narrow, {cotangent});
  const auto wanted = torch::autograd::grad({expected}, wide, {cotangent.to(at::kFloat)});
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO("gradient " << i);
    CHECK(same(given[i], wanted[i].to(narrow[i].scalar_type())));
  }
}

TEST_CASE("GELU of bf16 is that of floats, rounded once", "[kernels]") {
  for (const Gelu form : {Gelu::erf, Gelu::tanh})
    for (const std::int64_t size : {1, 3, 16, 31, 3000}) {
      INFO(size);
      check([&](const auto& x) { return bias_gelu(x[0], x[1], form); }, {drawn({3, 7, size})}, {at::randn({size})});
      check([&](const auto& x) { return gelu(x[0], form); }, {drawn({3, 7, size})});
    }
  at::Tensor extremes = drawn({4, 20});
  extremes[0].mul_(1e38);
  extremes[1][3] = std::numeric_limits<double>::quiet_NaN();
  extremes[2].mul_(1e-38);
  check([](const auto& x) { return gelu(x[0], Gelu::erf); }, {extremes});
}

TEST_CASE("SwiGLU of bf16 is that of floats, rounded once", "[kernels]") {
  for (const std::int64_t size : {1, 15, 16, 1000}) {
    INFO(size);
    check([](const auto& x) { return swiglu(x[0], x[1]); }, {drawn({3, 7, size}), drawn({3, 7, size})});
  }
}

TEST_CASE("rotary embedding of bf16 is that of floats, rounded once", "[kernels]") {
  for (const std::int64_t half : {1, 4, 16, 33}) {
    INFO(half);
    const at::Tensor angles = at::randn({5, half}), cosine = angles.cos(), sine = angles.sin();
    check(
        [&](const auto& x) {
          return rotate(x[0].unflatten(-1, {3, 2 * half}).transpose(1, 2), cosine, sine);
        },
        {drawn({2, 5, 6 * half})});
  }
}

TEST_CASE("the norm of a residual and a branch of bf16 is that of floats, rounded once", "[kernels]") {
  for (const bool has_bias : {false, true})
    for (const std::int64_t size : {1, 7, 16, 50, 384}) {
      INFO(size << (has_bias ? ", layer" : ", rms"));
      std::vector<at::Tensor> floats{at::randn({3, 5, size}), at::rand({size}).add_(0.5)};
      if (has_bias) floats.push_back(at::randn({size}));
      const auto run = [&](const auto& x, NormedFor use) {
        return add_norm(x[1], x[0], {.weight = x[2], .bias = has_bias ? x[3] : at::Tensor(), .epsilon = 1e-5}, use);
      };
      check([&](const auto& x) { return run(x, NormedFor::products).normed; }, {drawn({3, 5, size})}, floats);

      // The stream of residuals stays float, and so does a norm that becomes one.
      const at::Tensor branch = drawn({3, 5, size}).requires_grad_(true), wide = widened(branch);
      const std::vector<at::Tensor> of{branch, floats[0], floats[1], floats.back()},
          floats_of{wide, of[1], of[2], of.back()};
      const NormedSum actual = run(of, NormedFor::residuals), expected = run(floats_of, NormedFor::residuals);
      CHECK(same(actual.normed, expected.normed));
      CHECK(same(actual.sum, expected.sum));
      const at::Tensor to_normed = at::randn({3, 5, size}), to_sum = at::randn({3, 5, size});
      const auto gradient = [&](const NormedSum& of_both, const at::Tensor& input) {
        return torch::autograd::grad({of_both.normed, of_both.sum}, {input}, {to_normed, to_sum})[0];
      };
      CHECK(same(gradient(actual, branch), gradient(expected, wide).to(at::kBFloat16)));
    }
}

TEST_CASE("the softmax's gradient in place is that of floats, rounded once", "[kernels]") {
  for (const std::int64_t size : {1, 2, 15, 17, 1000, 4099})
    for (const double smoothing : {0.0, 0.2})
      for (const bool has_bias : {false, true}) {
        INFO(size << " columns, smoothing " << smoothing << (has_bias ? ", bias" : ""));
        at::Tensor narrow = drawn({9, size}).mul(30);
        narrow[0].narrow(0, 0, 1).fill_(1e4);
        at::Tensor wide = narrow.to(at::kFloat);
        const at::Tensor targets = at::randint(size, {9}, at::kLong);
        const at::Tensor bias = has_bias ? at::randn({size}) : at::Tensor();
        CHECK(same(to_softmax_gradient(narrow, targets, smoothing, bias),
                   to_softmax_gradient(wide, targets, smoothing, bias)));
        CHECK(same(narrow, wide.to(at::kBFloat16)));
      }
}

TEST_CASE("cross-entropy of a projection under autocast is the plain one of bf16 logits", "[kernels]") {
  const at::Tensor hidden = at::randn({37, 24}).requires_grad_(true);
  const at::Tensor weight = at::randn({101, 24}).requires_grad_(true);
  const at::Tensor bias = at::randn({101}).requires_grad_(true);
  at::Tensor targets = at::randint(101, {37}, at::kLong);
  targets.narrow(0, 5, 4).fill_(-100);
  const at::Tensor h = exactly(hidden.to(at::kBFloat16)), w = exactly(weight.to(at::kBFloat16)), shift = exactly(bias);
  const at::Tensor exact = at::cross_entropy_loss(at::linear(h, w, shift), targets, {}, at::Reduction::Sum, -100, 0.1);
  const auto wanted = torch::autograd::grad({exact}, {h, w, shift});
  for (const std::int64_t chunk : {0, 8, 37}) {
    INFO("chunk " << chunk);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor actual =
        linear_cross_entropy(hidden, weight, bias, targets, {.label_smoothing = 0.1, .chunk_size = chunk});
    at::autocast::set_autocast_enabled(at::kCPU, false);
    CHECK(actual.scalar_type() == at::kFloat);
    CHECK(error_of(actual, exact) <= kRounding);
    const auto given = torch::autograd::grad({actual}, {hidden, weight, bias});
    // Logits, their gradients and the products are rounded once each.
    for (std::size_t i = 0; i < given.size(); ++i) CHECK(error_of(given[i], wanted[i]) <= 4 * kRounding);
  }
}

}  // namespace
}  // namespace trainctl::kernels::bfloat16_test

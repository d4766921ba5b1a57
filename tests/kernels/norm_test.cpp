// Normalization and the residual connection before it, against LibTorch's in double precision.
#include "kernels/norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/rms_norm.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/exactness.h"
#include "kernels/portable.h"

namespace trainctl::kernels::norm_test {
namespace {

constexpr double kEpsilon = 1e-5;
enum class Kind { layer, rms };

at::Tensor plain_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::layer_norm(input, weight.sizes(), weight, bias, kEpsilon)
                        : at::rms_norm(input, weight.sizes(), weight, kEpsilon);
}

std::vector<at::Tensor> defined_of(std::vector<at::Tensor> tensors) {
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

/// Compares outputs and gradients with exact ones. An error may be 2e-6, or twice that of LibTorch's floats where the
/// problem itself magnifies rounding. `residual` may be undefined.
void check(Kind kind, at::Tensor residual, at::Tensor branch) {
  constexpr double kTolerance = 2e-6;
  INFO(branch.sizes() << (kind == Kind::rms ? ", rms" : ", layer") << (residual.defined() ? ", residual" : ""));
  const std::int64_t size = branch.size(-1);
  at::Tensor weight = at::rand({size}).add_(0.5).requires_grad_(true);
  at::Tensor bias = kind == Kind::layer ? at::randn({size}).requires_grad_(true) : at::Tensor();
  branch.requires_grad_(true);
  if (residual.defined()) residual.requires_grad_(true);
  const std::vector<at::Tensor> inputs = defined_of({residual, branch, weight, bias});
  const at::Tensor normed_cotangent = at::randn_like(branch), sum_cotangent = at::randn_like(branch);

  const auto plainly = [&](const at::Tensor& r, const at::Tensor& b, const at::Tensor& w, const at::Tensor& shift) {
    const at::Tensor sum = r.defined() ? r.add(b) : b;
    return std::vector<at::Tensor>{plain_norm(sum, w, shift), sum};
  };
  const auto gradients = [&](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& of) {
    const at::ScalarType type = of.front().scalar_type();
    return torch::autograd::grad(residual.defined() ? outputs : std::vector{outputs[0]}, of,
                                 residual.defined() ? std::vector{normed_cotangent.to(type), sum_cotangent.to(type)}
                                                    : std::vector{normed_cotangent.to(type)});
  };
  const at::Tensor r = exactly(residual), b = exactly(branch), w = exactly(weight), shift = exactly(bias);
  const std::vector<at::Tensor> exact = plainly(r, b, w, shift);
  const std::vector<at::Tensor> wanted = gradients(exact, defined_of({r, b, w, shift}));
  const std::vector<at::Tensor> floats = plainly(residual, branch, weight, bias);
  const std::vector<at::Tensor> peers = gradients(floats, inputs);

  const NormParameters parameters{.weight = weight, .bias = bias, .epsilon = kEpsilon};
  NormedSum actual;
  if (residual.defined())
    actual = add_norm(residual, branch, parameters, NormedFor::products);
  else
    actual.normed = norm(branch, parameters);
  CHECK(error_of(actual.normed, exact[0]) <= std::max(kTolerance, 2 * error_of(floats[0], exact[0])));
  if (residual.defined()) CHECK(error_of(actual.sum, exact[1]) <= kTolerance);
  const std::vector<at::Tensor> given = gradients({actual.normed, actual.sum}, inputs);
  // One element is its own mean: the gradient is a difference of equals, times 1 / √epsilon.
  const double least = size == 1 ? 1 / std::sqrt(kEpsilon) : 1e-30;
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO("gradient " << i);
    CHECK(error_of(given[i], wanted[i], least) <= std::max(kTolerance, 2 * error_of(peers[i], wanted[i], least)));
  }
}

TEST_CASE("a norm with a residual connection is exact to floats", "[kernels]") {
  for (const Kind kind : {Kind::layer, Kind::rms})
    for (const std::int64_t size : {1, 2, 7, 16, 31, 50, 384, 1023})
      for (const bool has_residual : {false, true}) {
        check(kind, has_residual ? at::randn({3, 11, size}) : at::Tensor(), at::randn({3, 11, size}));
        check(kind, has_residual ? at::randn({1, size}) : at::Tensor(), at::randn({1, size}));
      }
}

TEST_CASE("a norm takes inputs of any layout and of extreme values", "[kernels]") {
  for (const Kind kind : {Kind::layer, Kind::rms}) {
    check(kind, at::randn({40, 9}).t(), at::randn({9, 80}).slice(1, 0, 80, 2));
    check(kind, at::randn({5, 64}).add_(3e3), at::randn({5, 64}));
    check(kind, at::randn({5, 64}).mul_(1e15), at::randn({5, 64}).mul_(1e15));
    check(kind, at::randn({5, 64}).mul_(1e-18), at::randn({5, 64}).mul_(1e-18));
    const at::Tensor same = at::full({4, 32}, 7.0);
    check(kind, same.clone(), same.clone());
  }
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor broken = at::randn({2, 24});
  broken[0][3] = kNan;
  const NormedSum of_broken =
      add_norm(broken, at::randn({2, 24}), {.weight = at::rand({24}), .epsilon = kEpsilon}, NormedFor::products);
  CHECK(of_broken.normed[0].isnan().all().item<bool>());
  CHECK(of_broken.normed[1].isfinite().all().item<bool>());
}

TEST_CASE("a norm's gradient is the slope of its function", "[kernels]") {
  for (const Kind kind : {Kind::layer, Kind::rms}) {
    std::vector<at::Tensor> x{at::randn({6, 33}), at::randn({6, 33}), at::rand({33}).add_(0.5)};
    if (kind == Kind::layer) x.push_back(at::randn({33}));
    const at::Tensor normed_cotangent = at::randn({6, 33}), sum_cotangent = at::randn({6, 33});
    const auto loss = [&](const std::vector<at::Tensor>& at_x) {
      const at::Tensor sum = at_x[0].add(at_x[1]);
      const at::Tensor normed = plain_norm(sum, at_x[2], at_x.size() > 3 ? at_x[3] : at::Tensor());
      return normed.mul(normed_cotangent).sum().add(sum.mul(sum_cotangent).sum());
    };
    std::vector<at::Tensor> direction;
    for (at::Tensor& tensor : x) {
      tensor.requires_grad_(true);
      direction.push_back(at::randn_like(tensor));
    }
    const NormedSum result =
        add_norm(x[0], x[1], {.weight = x[2], .bias = x.size() > 3 ? x[3] : at::Tensor(), .epsilon = kEpsilon},
                 NormedFor::products);
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({result.normed, result.sum}, x, {normed_cotangent, sum_cotangent});
    const double slope = finite_difference(loss, x, direction);
    CHECK(std::abs(along(gradients, direction) - slope) <= 1e-4 * std::max(1.0, std::abs(slope)));
  }
}

TEST_CASE("a norm gives gradients if only one of its results is used", "[kernels]") {
  const at::Tensor weight = at::rand({20}).requires_grad_(true);
  const auto results = [&](const at::Tensor& residual, const at::Tensor& branch) {
    return add_norm(residual, branch, {.weight = weight, .epsilon = kEpsilon}, NormedFor::products);
  };
  const at::Tensor residual = at::randn({3, 20}).requires_grad_(true), branch = at::randn({3, 20}).requires_grad_(true);
  const at::Tensor cotangent = at::randn({3, 20});
  const auto of_sum = torch::autograd::grad({results(residual, branch).sum}, {residual, branch}, {cotangent});
  for (const at::Tensor& gradient : of_sum) CHECK(gradient.equal(cotangent));
  const auto of_normed = torch::autograd::grad({results(residual, branch).normed}, {residual, branch}, {cotangent});
  const at::Tensor exact = exactly(residual.add(branch));
  const at::Tensor wanted =
      torch::autograd::grad({plain_norm(exact, exactly(weight), {})}, {exact}, {cotangent.to(at::kDouble)})[0];
  for (const at::Tensor& gradient : of_normed) CHECK(error_of(gradient, wanted) <= 2e-6);
}

TEST_CASE("a norm's bits don't depend on the number of threads", "[kernels]") {
  const at::Tensor residual = at::randn({300, 70}), branch = at::randn({300, 70}).requires_grad_(true);
  const at::Tensor weight = at::rand({70}).requires_grad_(true), bias = at::randn({70}).requires_grad_(true);
  const auto all = [&] {
    const NormedSum result =
        add_norm(residual, branch, {.weight = weight, .bias = bias, .epsilon = kEpsilon}, NormedFor::products);
    const auto gradients = torch::autograd::grad({result.normed.square().sum()}, {branch, weight, bias});
    return at::cat({result.normed.reshape(-1), gradients[0].reshape(-1), gradients[1], gradients[2]});
  };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = all();
  at::set_num_threads(threads);
  CHECK(alone.equal(all()));
}

TEST_CASE("a norm of doubles, of 16 bits or for a trace is LibTorch's", "[kernels]") {
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    const at::Tensor residual = at::randn({4, 9}).to(type), branch = at::randn({4, 9}).to(type);
    const at::Tensor weight = at::rand({9}).to(type);
    const NormedSum result = add_norm(residual, branch, {.weight = weight, .epsilon = kEpsilon}, NormedFor::products);
    CHECK(result.normed.equal(plain_norm(residual.add(branch), weight, {})));
  }
  const PortableOperators portable;
  const at::Tensor input = at::randn({4, 9}), weight = at::rand({9});
  CHECK(norm(input, {.weight = weight, .epsilon = kEpsilon}).equal(plain_norm(input, weight, {})));
}

}  // namespace
}  // namespace trainctl::kernels::norm_test

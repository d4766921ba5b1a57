// Winograd's convolutions against direct ones in double precision.
#include "kernels/winograd.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/convolution.h"
#include "kernels/exactness.h"
#include "kernels/portable.h"

namespace trainctl::kernels::winograd_test {
namespace {

at::Tensor draw(std::vector<std::int64_t> shape) {
  return at::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor direct(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {}) {
  return at::conv2d(input, weight, bias, {1, 1}, at::IntArrayRef{1, 1});
}

struct Shape {
  std::int64_t batch, inputs, outputs, height, width;
};

/// Compares output and gradients with exact ones, and the errors with those of the direct convolution.
void check(const Shape& shape, double magnitude = 1) {
  INFO(shape.batch << " images of " << shape.height << " x " << shape.width << ", " << shape.inputs << " -> "
                   << shape.outputs);
  const at::Tensor x =
      draw({shape.batch, shape.inputs, shape.height, shape.width}).mul_(magnitude).requires_grad_(true);
  const at::Tensor w = draw({shape.outputs, shape.inputs, 3, 3}).mul_(0.1).requires_grad_(true);
  const at::Tensor b = at::randn({shape.outputs}).mul_(magnitude).requires_grad_(true);
  const at::Tensor actual = winograd_convolution(x, w, b), plain = direct(x, w, b);
  const std::vector<at::Tensor> inputs{x, w, b}, exact{exactly(x), exactly(w), exactly(b)};
  const at::Tensor expected = direct(exact[0], exact[1], exact[2]);
  REQUIRE(actual.sizes() == expected.sizes());
  CHECK(actual.is_contiguous(at::MemoryFormat::ChannelsLast));
  // Short sums have errors of an ulp or two either way.
  constexpr double kFewUlps = 6e-7;
  CHECK(error_of(actual, expected) <= std::max(kFewUlps, 2 * error_of(plain, expected)));
  CHECK(error_of(actual, expected) <= 2e-6);
  const at::Tensor cotangent = at::randn_like(actual.detach());
  const auto wanted = torch::autograd::grad({expected}, exact, {cotangent.to(at::kDouble)});
  const auto given = torch::autograd::grad({actual}, inputs, {cotangent});
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO("gradient " << i);
    REQUIRE(given[i].sizes() == wanted[i].sizes());
    CHECK(error_of(given[i], wanted[i]) <= 4e-6);
  }
}

TEST_CASE("Winograd's convolutions and gradients are the exact ones for images of any size", "[kernels]") {
  for (const auto& [height, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {1, 6}, {2, 1}, {3, 3}, {4, 4}, {5, 7}, {7, 7}, {8, 3}, {14, 14}, {33, 17}})
    check({.batch = 3, .inputs = 32, .outputs = 48, .height = height, .width = width});
  for (const auto& [inputs, outputs] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {16, 16}, {16, 64}, {48, 16}, {64, 32}, {96, 160}, {256, 64}, {512, 512}})
    check({.batch = 2, .inputs = inputs, .outputs = outputs, .height = 7, .width = 9});
  check({.batch = 1, .inputs = 32, .outputs = 32, .height = 8, .width = 8});
  check({.batch = 128, .inputs = 32, .outputs = 32, .height = 8, .width = 8});
}

TEST_CASE("Winograd's convolutions keep their precision at large and small magnitudes", "[kernels]") {
  for (const double magnitude : {1e-30, 1e-6, 1e6, 1e30})
    check({.batch = 2, .inputs = 32, .outputs = 32, .height = 9, .width = 9}, magnitude);
}

TEST_CASE("Winograd's gradient is the slope of its output", "[kernels]") {
  const at::Tensor x = draw({2, 32, 6, 6}), w = draw({32, 32, 3, 3}).mul_(0.1).requires_grad_(true);
  const at::Tensor cotangent = at::randn_like(x), step = at::randn_like(w.detach());
  const auto loss = [&](const at::Tensor& weight) {
    return winograd_convolution(x, weight).to(at::kDouble).mul(cotangent).sum();
  };
  const double slope =
      torch::autograd::grad({winograd_convolution(x, w)}, {w}, {cotangent})[0].mul(step).sum().item<double>();
  // The output is linear in the weight, so that the difference has no error of a long step.
  const at::Tensor difference = loss(w.detach().add(step)).sub(loss(w.detach().sub(step))).div(2);
  CHECK(difference.item<double>() == Approx(slope).epsilon(1e-5));
}

TEST_CASE("Winograd's gradients follow what is asked for, and any layout of the output's gradient", "[kernels]") {
  const at::Tensor x = draw({2, 32, 8, 8}), w = draw({32, 32, 3, 3});
  const auto gradients = [](at::Tensor output, const std::vector<at::Tensor>& of) {
    return torch::autograd::grad({output.sum()}, of);  // every element is the same number in memory
  };
  const at::Tensor weight = w.detach().requires_grad_(true), input = x.detach().requires_grad_(true);
  const auto both = gradients(winograd_convolution(input, weight), {input, weight});
  CHECK(gradients(winograd_convolution(x, weight), {weight})[0].equal(both[1]));
  CHECK(gradients(winograd_convolution(input, w), {input})[0].equal(both[0]));
  CHECK(error_of(both[0], gradients(direct(input, weight), {input})[0]) <= 4e-6);
  CHECK(error_of(both[1], gradients(direct(input, weight), {weight})[0]) <= 4e-6);
}

TEST_CASE("a pixel that is not a number spoils the tiles that it touches and no others", "[kernels]") {
  const at::Tensor x = draw({2, 32, 12, 12}), w = draw({32, 32, 3, 3});
  x.select(0, 1).select(0, 5).select(0, 6).select(0, 7).fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor finite = at::isfinite(winograd_convolution(x, w));
  CHECK(finite.select(0, 0).all().item<bool>());
  // Tiles of 2 x 2 whose patches have the pixel (6, 7): rows 4 to 9 at the most, columns 6 to 9.
  const at::Tensor spoilt = finite.select(0, 1).logical_not().any(0);
  CHECK(spoilt.narrow(0, 5, 3).narrow(1, 6, 3).all().item<bool>());
  CHECK(spoilt.sum().item<std::int64_t>() == spoilt.narrow(0, 4, 4).narrow(1, 6, 4).sum().item<std::int64_t>());
}

TEST_CASE("Winograd's output doesn't depend on the number of threads, its gradients on nothing else", "[kernels]") {
  const int threads = at::get_num_threads();
  const at::Tensor x = draw({8, 64, 10, 10}).requires_grad_(true), w = draw({64, 64, 3, 3}).requires_grad_(true);
  const at::Tensor cotangent = at::randn_like(x.detach());
  const auto run = [&](int with) {
    at::set_num_threads(with);
    const at::Tensor output = winograd_convolution(x, w);
    auto all = torch::autograd::grad({output}, {x, w}, {cotangent});
    all.push_back(output);
    return all;
  };
  const auto one = run(1), three = run(3), again = run(3);
  at::set_num_threads(threads);
  CHECK(one[0].equal(three[0]));
  CHECK(one[2].equal(three[2]));
  CHECK(three[1].equal(again[1]));
  CHECK(error_of(one[1], three[1].to(at::kDouble)) <= 1e-6);
}

TEST_CASE("convolutions take Winograd's algorithm where it suits them and nobody forbids it", "[kernels]") {
  const ConvolutionGeometry same{.stride = 1, .padding = 1};
  const at::Tensor x = draw({4, 32, 16, 16}), w = draw({32, 32, 3, 3});
  CHECK(convolution(x, w, {}, same).equal(winograd_convolution(x, w)));
  CHECK(convolution(x, w, {}, same, Winograd::never).equal(direct(x, w)));
  const ConvolutionGeometry halving{.stride = 2, .padding = 1};
  CHECK(convolution(x, w, {}, halving).equal(at::conv2d(x, w, {}, {2, 2}, at::IntArrayRef{1, 1})));
  CHECK(convolution(x, draw({32, 16, 3, 3}), {}, {.padding = 1, .groups = 2}).size(1) == 32);

  REQUIRE(suits_winograd(x, w));
  CHECK_FALSE(suits_winograd(x.to(at::kDouble), w.to(at::kDouble)));
  CHECK_FALSE(suits_winograd(x.to(at::kBFloat16), w.to(at::kBFloat16)));
  CHECK_FALSE(suits_winograd(x.contiguous(), w));
  CHECK_FALSE(suits_winograd(x, w.contiguous()));
  CHECK_FALSE(suits_winograd(draw({4, 40, 16, 16}), draw({40, 40, 3, 3})));  // no whole vectors
  CHECK_FALSE(suits_winograd(draw({4, 3, 16, 16}), draw({32, 3, 3, 3})));
  CHECK_FALSE(suits_winograd(x, draw({32, 32, 5, 5})));
  CHECK_FALSE(suits_winograd(draw({64, 32, 3, 3}), w));  // too much beyond the border
  CHECK_FALSE(suits_winograd(draw({1, 32, 8, 8}), w));   // too few tiles
  CHECK_FALSE(suits_winograd(draw({8, 512, 7, 7}), draw({512, 512, 3, 3})));
  {
    const PortableOperators portable;
    CHECK_FALSE(suits_winograd(x, w));
  }
  at::autocast::set_autocast_enabled(at::kCPU, true);
  CHECK_FALSE(suits_winograd(x, w));
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

}  // namespace
}  // namespace trainctl::kernels::winograd_test

// Our pooling against LibTorch's, to the bit: nothing is rounded.
#include "kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

namespace trainctl::kernels::max_pool_test {
namespace {

at::Tensor images(std::vector<std::int64_t> shape) {
  return at::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor plain(const at::Tensor& input, const PoolWindow& window) {
  return at::relu(at::max_pool2d(input, {window.side, window.side}, {window.stride, window.stride},
                                 {window.padding, window.padding}));
}

void check(const at::Tensor& values, const PoolWindow& window) {
  INFO(values.sizes() << ", windows of " << window.side);
  const at::Tensor x = values.detach().requires_grad_(true);
  const at::Tensor expected = plain(x, window), actual = relu_of_max_pool(x, window);
  REQUIRE(actual.sizes() == expected.sizes());
  CHECK(actual.equal(expected));
  const at::Tensor cotangent = at::randn_like(expected.detach());
  const at::Tensor wanted = torch::autograd::grad({expected}, {x}, {cotangent})[0];
  const at::Tensor given = torch::autograd::grad({actual}, {x}, {cotangent})[0];
  // Where windows overlap, a pixel's gradient is a sum of up to four numbers, in any order.
  CHECK(given.sub(wanted).abs().max().item<double>() <= (window.side == 2 ? 0 : 1e-6));
}

TEST_CASE("ReLU of the largest of a window, and its gradient, are LibTorch's", "[kernels]") {
  for (const PoolWindow& window : {kPool2x2, kPool3x3}) {
    for (const auto& [height, width] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2}, {3, 2}, {5, 7}, {8, 8}, {28, 28}, {15, 4}}) {
      check(images({3, 16, height, width}), window);
      check(images({2, 48, height, width}), window);
      check(at::randn({2, 6, height, width}), window);  // by LibTorch's operators
      check(images({2, 32, height, width}).to(at::kDouble), window);
    }
    check(images({2, 32, 9, 9}).abs().neg(), window);
    check(at::randint(-1, 2, {2, 32, 9, 9}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast), window);  // equals
    check(images({2, 32, 9, 9}).mul(1e38), window);
  }
  check(images({2, 16, 1, 1}), kPool3x3);
  check(images({2, 16, 1, 3}), kPool3x3);
}

TEST_CASE("pooling keeps what is not a number, and infinities", "[kernels]") {
  for (const PoolWindow& window : {kPool2x2, kPool3x3}) {
    const at::Tensor x = images({1, 16, 6, 6});
    const auto at_pixel = [&](std::int64_t y, std::int64_t column) {
      return x.select(0, 0).select(0, 5).select(0, y).narrow(0, column, 1);
    };
    at_pixel(0, 0).fill_(std::numeric_limits<float>::quiet_NaN());
    at_pixel(3, 3).fill_(std::numeric_limits<float>::infinity());
    at_pixel(5, 5).fill_(-std::numeric_limits<float>::infinity());
    const at::Tensor expected = plain(x, window), actual = relu_of_max_pool(x, window);
    CHECK(actual.isnan().equal(expected.isnan()));
    CHECK(actual.nan_to_num().equal(expected.nan_to_num()));
  }
}

TEST_CASE("pooling's bits don't depend on the number of threads", "[kernels]") {
  const int threads = at::get_num_threads();
  const at::Tensor x = images({4, 32, 13, 13}).requires_grad_(true);
  const auto run = [&](int with) {
    at::set_num_threads(with);
    const at::Tensor output = relu_of_max_pool(x, kPool3x3);
    return std::pair(output.detach(), torch::autograd::grad({output}, {x}, {output.detach()})[0]);
  };
  const auto one = run(1), three = run(3);
  at::set_num_threads(threads);
  CHECK(one.first.equal(three.first));
  CHECK(one.second.equal(three.second));
}

}  // namespace
}  // namespace trainctl::kernels::max_pool_test

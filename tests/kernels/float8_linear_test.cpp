// Linear layers in eight bits: the quantizers against the formats' tables of numbers, products against doubles.
#include "kernels/float8_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <limits>

#include "kernels/cuda_grid.h"
#include "kernels/device/emulated_grid.h"
#include "kernels/device/operators.h"
#include "kernels/exactness.h"
#include "kernels/matrix_product.h"
#include "support/gpu.h"

namespace trainctl::kernels::float8_linear_test {
namespace {

double largest_of(at::ScalarType format) {
  return format == at::kFloat8_e4m3fn ? 448 : 57344;
}

/// All finite numbers of the format that aren't negative, as doubles: from the bits, by its definition.
std::vector<double> numbers_of(at::ScalarType format) {
  const int mantissa = format == at::kFloat8_e4m3fn ? 3 : 2;
  const int bias = format == at::kFloat8_e4m3fn ? 7 : 15;
  std::vector<double> numbers;
  for (int bits = 0; bits < 128; ++bits) {
    const int exponent = bits >> mantissa;
    const double fraction = (bits & ((1 << mantissa) - 1)) / static_cast<double>(1 << mantissa);
    const double number = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    if (number <= largest_of(format)) numbers.push_back(number);
  }
  return numbers;
}

/// Whether each element became the nearest number of the format, and of two as near the one whose last bit is 0.
void check_nearest(const at::Tensor& input, const at::Tensor& quantized, double scale, at::ScalarType format) {
  const std::vector<double> numbers = numbers_of(format);
  const at::Tensor values = input.to(at::kFloat).mul(static_cast<float>(scale)).to(at::kDouble).reshape(-1);
  const at::Tensor given = quantized.to(at::kDouble).reshape(-1);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double value = std::min(std::abs(values[i].item<double>()), largest_of(format));
    std::size_t best = 0;
    for (std::size_t n = 1; n < numbers.size(); ++n) {
      const double gap = std::abs(numbers[n] - value), least = std::abs(numbers[best] - value);
      if (gap < least || (gap == least && n % 2 == 0)) best = n;
    }
    if (std::abs(given[i].item<double>()) != numbers[best]) ++wrong;
    if (value > 0 && numbers[best] > 0 && (given[i].item<double>() < 0) != (values[i].item<double>() < 0)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("eight bits are the nearest numbers of the format", "[kernels]") {
  for (const at::ScalarType format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const at::Tensor input = at::randn({24, 20}).mul_(at::randn({24, 20}).mul_(4).exp_());
    const auto [quantized, transposed, inverse] = quantize_float8(input, format);
    CHECK(inverse.item<float>() == 1 / (static_cast<float>(largest_of(format)) / input.abs().max().item<float>()));
    check_nearest(input, quantized, largest_of(format) / input.abs().max().item<float>(), format);
    CHECK(transposed.to(at::kFloat).equal(quantized.to(at::kFloat).t()));
    CHECK(quantized.to(at::kFloat).abs().max().item<double>() == largest_of(format));
  }
}

/// Places where the kernel runs, with the tensors there.
void check_kernel(const device::Grid& grid, c10::Device place) {
  for (const at::ScalarType format : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const auto& [rows, columns] :
           {std::pair<std::int64_t, std::int64_t>{4, 4}, {64, 64}, {16, 132}, {200, 68}}) {
        CAPTURE(format, type, rows, columns);
        const at::Tensor input = at::randn({rows, columns}).to(type);
        const at::Tensor amax = input.abs().max().to(at::kFloat);
        const auto wanted = quantize_float8(input, format);
        const auto [quantized, transposed, inverse] = device::quantize(grid, input.to(place), amax.to(place), format);
        CHECK(quantized.cpu().view(at::kByte).equal(std::get<0>(wanted).view(at::kByte)));
        CHECK(transposed.cpu().view(at::kByte).equal(std::get<1>(wanted).view(at::kByte)));
        CHECK(inverse.cpu().equal(std::get<2>(wanted)));
      }
}

TEST_CASE("the GPU's quantizer, thread by thread, gives the reference's bits", "[kernels]") {
  check_kernel(device::EmulatedGrid(1), c10::kCPU);
}

TEST_CASE("a GPU's quantizer gives the reference's bits", "[kernels][gpu]") {
  testing::need_gpu();
  check_kernel(cuda_grid(), c10::Device(c10::kCUDA, 0));
}

TEST_CASE("eight bits of nothing, of tiny and of broken numbers", "[kernels]") {
  const auto first = [](const at::Tensor& input) {
    return std::get<0>(quantize_float8(input, at::kFloat8_e4m3fn)).to(at::kFloat);
  };
  CHECK(first(at::zeros({4, 4})).equal(at::zeros({4, 4})));
  CHECK(first(at::full({4, 4}, 1e-38)).equal(at::zeros({4, 4})));
  CHECK(first(at::full({4, 4}, 1e30)).equal(at::full({4, 4}, 448.0)));
  for (const float broken : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const at::Tensor input = at::randn({4, 4});
    input[1][2] = broken;
    CHECK(first(input)[1][2].isnan().item<bool>());
  }
}

/// Quantizes, and returns the numbers themselves.
at::Tensor rounded(const at::Tensor& tensor, at::ScalarType format) {
  const auto [quantized, transposed, inverse] = quantize_float8(tensor.reshape({-1, tensor.size(-1)}), format);
  return quantized.to(at::kDouble).mul(inverse.to(at::kDouble)).view(tensor.sizes());
}

TEST_CASE("a linear layer in eight bits multiplies the quantized numbers, forward and backward", "[kernels]") {
  for (const bool has_bias : {false, true})
    for (const bool is_transposed : {false, true}) {
      const at::Tensor input = at::randn({2, 24, 32}).requires_grad_(true);
      const at::Tensor weight = (is_transposed ? at::randn({32, 48}).t() : at::randn({48, 32})).requires_grad_(true);
      const at::Tensor bias = at::randn({48}).requires_grad_(true);
      const std::optional<at::Tensor> offset = has_bias ? std::optional(bias) : std::nullopt;
      const at::Tensor incoming = at::randn({2, 24, 48}).to(at::kBFloat16);
      REQUIRE(suits_float8(input, weight));
      const at::Tensor output = float8_linear(input, weight, offset);
      CHECK(output.scalar_type() == at::kBFloat16);
      const at::Tensor x = rounded(input, at::kFloat8_e4m3fn), w = rounded(weight, at::kFloat8_e4m3fn);
      const at::Tensor g = rounded(incoming, at::kFloat8_e5m2);
      const at::Tensor exact = at::linear(x, w, has_bias ? std::optional(bias.to(at::kDouble)) : std::nullopt);
      constexpr double kOfBf16 = 8e-3;
      CHECK(error_of(output, exact) <= kOfBf16);
      std::vector<at::Tensor> of{input, weight};
      if (has_bias) of.push_back(bias);
      const auto gradients = torch::autograd::grad({output}, of, {incoming});
      const at::Tensor rows = g.reshape({-1, 48});
      CHECK(error_of(gradients[0], rows.mm(w).view({2, 24, 32})) <= kOfBf16);
      CHECK(gradients[0].scalar_type() == at::kFloat);
      CHECK(error_of(gradients[1], rows.t().mm(x.reshape({-1, 32}))) <= 1e-5);
      CHECK(gradients[1].scalar_type() == at::kFloat);
      if (has_bias) CHECK(error_of(gradients[2], incoming.to(at::kDouble).reshape({-1, 48}).sum(0)) <= 1e-5);
    }
}

TEST_CASE("layers multiply in eight bits within the scope, where their shapes suit", "[kernels]") {
  const at::Tensor input = at::randn({16, 32}), weight = at::randn({48, 32});
  CHECK(linear_product(input, weight).scalar_type() == at::kFloat);
  const Float8Products eight_bits(true);
  CHECK(linear_product(input, weight).scalar_type() == at::kBFloat16);
  for (const auto& [rows, inner, outputs] : {std::tuple<int, int, int>{15, 32, 48}, {16, 31, 48}, {16, 32, 47}})
    CHECK(linear_product(at::randn({rows, inner}), at::randn({outputs, inner})).scalar_type() == at::kFloat);
}

}  // namespace
}  // namespace trainctl::kernels::float8_linear_test

// Products of bytes against the same in 64-bit integers: exact but for the last step, which is in floats.
#include "quantization/workarounds/int8_gemm.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/round.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "support/skip.h"

namespace trainctl::quantization::int8_gemm_test {
namespace {

constexpr double kScale = 0.03;

at::Tensor bytes(std::int64_t low, std::int64_t high, std::vector<std::int64_t> shape) {
  return at::randint(low, high + 1, shape, at::kLong).to(at::kChar);
}

/// The product of the levels, without a bias, in double precision.
at::Tensor expected_product(const at::Tensor& input, std::int64_t zero_point, const at::Tensor& weights,
                            const at::Tensor& scales) {
  const at::Tensor levels =
      input.mul(1 / static_cast<float>(kScale)).round().add(zero_point).clamp(0, 255).sub(zero_point);
  const at::Tensor sums = at::linear(levels.to(at::kDouble), weights.to(at::kDouble));
  return sums.mul(scales.to(at::kDouble)).mul(static_cast<double>(static_cast<float>(kScale)));
}

void check_product(const at::Tensor& input, const at::Tensor& weights, std::int64_t zero_point, bool has_bias = true) {
  const std::int64_t out = weights.size(0);
  const at::Tensor scales = at::randn({out}).abs().add(0.1);
  const at::Tensor bias = has_bias ? at::randn({out}) : at::Tensor();
  const Int8Matrix matrix(weights);
  const at::Tensor actual =
      Int8Matrix::multiply(input, {.scale = kScale, .zero_point = zero_point}, {{matrix, scales, bias}})[0];
  const at::Tensor product = expected_product(input, zero_point, weights, scales);
  const at::Tensor added = bias.defined() ? bias.to(at::kDouble) : at::zeros({out}, at::kDouble);
  const at::Tensor expected = product.add(added);
  REQUIRE(actual.sizes() == expected.sizes());
  // A sum of floats is off by a share of its terms: product and bias may cancel.
  const double magnitude = product.abs().add(added.abs()).max().item<double>() + 1e-30;
  CHECK(actual.to(at::kDouble).sub(expected).abs().max().item<double>() <= 3e-7 * magnitude);
}

void require_int8() {
  if (!Int8Matrix::is_supported()) testing::skip("this CPU has no AVX2");
}

}  // namespace

TEST_CASE("a product of bytes is exact whatever is left over of tiles, panels and chunks", "[quantization]") {
  require_int8();
  for (const std::int64_t rows : {1, 3, 4, 130, 257})
    for (const std::int64_t out : {1, 16, 40})
      for (const std::int64_t in : {8, 64, 392})
        for (const std::int64_t zero_point : {10, 50, 120})  // no, some and many levels beyond 127
          check_product(at::randn({rows, in}), bytes(-128, 127, {out, in}), zero_point, /*has_bias=*/rows != 3);
  check_product(at::randn({2, 5, 64}).transpose(0, 1), bytes(-128, 127, {24, 64}), 64);
  const Int8Matrix matrix(bytes(-128, 127, {24, 64}));
  const at::Tensor nothing = Int8Matrix::multiply(at::randn({0, 64}), {kScale, 0}, {{matrix, at::randn({24}), {}}})[0];
  CHECK(nothing.sizes() == at::IntArrayRef({0, 24}));
}

TEST_CASE("several products of one input are what each of them is", "[quantization]") {
  require_int8();
  const at::Tensor input = at::randn({150, 64});
  const Int8Matrix narrow(bytes(-128, 127, {8, 64}));
  const Int8Matrix wide(bytes(-128, 127, {40, 64}));
  const Int8Matrix::Factor first{narrow, at::randn({8}).abs(), at::randn({8})};
  const Int8Matrix::Factor second{wide, at::randn({40}).abs(), {}};
  const Int8Matrix::InputLevels levels{.scale = kScale, .zero_point = 60};
  const std::vector<at::Tensor> both = Int8Matrix::multiply(input, levels, {first, second, first});
  REQUIRE(both.size() == 3);
  CHECK(both[0].equal(Int8Matrix::multiply(input, levels, {first})[0]));
  CHECK(both[1].equal(Int8Matrix::multiply(input, levels, {second})[0]));
  CHECK(both[2].equal(both[0]));
}

TEST_CASE("the largest weights and inputs don't overflow sixteen bits", "[quantization]") {
  require_int8();
  const at::Tensor most = at::full({4, 64}, 127 * kScale);
  for (const std::int64_t weight : {127, -128}) {
    const at::Tensor weights = at::full({16, 64}, weight, at::kChar);
    check_product(most, weights, 0);
    check_product(most.neg(), weights, 127);
    check_product(most.mul(100), weights, 0);  // 255, the last level
    check_product(most.mul(-100), weights, 127);
    // Of four such weights two can be added.
    CHECK(Int8Matrix(weights).num_apart() == 16 * 64 / 2);
  }
  CHECK(Int8Matrix(bytes(-64, 64, {16, 64})).num_apart() == 0);
}

TEST_CASE("levels end where the scale does, and lie where LibTorch has them", "[quantization]") {
  require_int8();
  const Int8Matrix matrix(at::full({1, 8}, 1, at::kChar));
  const at::Tensor scales = at::full({1}, 1.0F);
  const auto levels_of = [&](float value) {
    at::Tensor input = at::full({1, 8}, -1e30);
    input.index_put_({at::full({1}, 0, at::kLong), at::full({1}, 0, at::kLong)}, at::full({1}, value));
    return Int8Matrix::multiply(input, {.scale = 0.5, .zero_point = 0}, {{matrix, scales, {}}})[0].item<float>() / 0.5F;
  };
  CHECK(levels_of(-3) == 0);
  CHECK(levels_of(0.75F) == 2);  // 1.5 is as near to 2 as to 1
  CHECK(levels_of(1.25F) == 2);
  CHECK(levels_of(1.3F) == 3);
  CHECK(levels_of(63.5F) == 127);
  CHECK(levels_of(64) == 128);
  CHECK(levels_of(127.5F) == 255);
  CHECK(levels_of(128) == 255);
  CHECK(levels_of(1e30F) == 255);
}

}  // namespace trainctl::quantization::int8_gemm_test

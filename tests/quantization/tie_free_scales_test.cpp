#include "quantization/workarounds/tie_free_scales.h"

#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include "quantization/backend.h"

namespace trainctl::quantization::tie_free_scales_test {
namespace {

double distance_from_middle(double value) {
  return std::abs(value - std::floor(value) - 0.5);
}

TEST_CASE("no sum of a product lies near the middle between two levels", "[quantization]") {
  at::manual_seed(1);
  std::mt19937 draw(1);
  const at::Tensor input = at::scalar_tensor(0.0231F);
  const at::Tensor output = at::scalar_tensor(0.0417F);
  const at::Tensor wanted = at::rand({400}).mul(-16).exp2();  // from 15e-6 to 1
  const at::Tensor rows = middle_free_rows(wanted, input, output);
  for (std::int64_t row = 0; row < rows.numel(); ++row) {
    const double level = rows[row].item<double>() * input.item<double>() / output.item<double>();
    const double growth = rows[row].item<double>() / wanted[row].item<double>();
    INFO(level);
    CHECK(growth > 1 - 1e-6);
    // A level has at most 8191 steps; weights of fewer levels cost nothing that the output's would show.
    CHECK((growth < 1.0006 || level < 1.0001 / 8191));
    const auto most = static_cast<std::int64_t>(255 / level);
    std::uniform_int_distribution<std::int64_t> sums(-most, most);
    double nearest = 1;
    for (int i = 0; i < 2000; ++i)
      nearest = std::min(nearest, distance_from_middle(static_cast<double>(sums(draw)) * level));
    CHECK(nearest > 4e-5);  // 1 / (2 · 8191), and 255 levels as floats
  }
}

TEST_CASE("no sum of two values lies near the middle between two levels", "[quantization]") {
  std::mt19937 draw(2);
  std::uniform_real_distribution<double> exponent(-3, 3);
  for (int i = 0; i < 20; ++i) {
    const SumScales wanted{
        .kept = 0.02, .moved = 0.02 * std::exp2(exponent(draw)), .sum = 0.02 * std::exp2(exponent(draw))};
    const SumScales scales = middle_free(wanted);
    INFO(wanted.moved << " " << wanted.sum);
    CHECK(scales.kept == wanted.kept);
    CHECK(scales.moved >= wanted.moved);
    CHECK(scales.moved - wanted.moved < wanted.sum / 2000);
    CHECK(scales.sum >= wanted.sum);
    CHECK(scales.sum < wanted.sum * 1.001);
    // As floats, which is what a file has.
    const auto moved = static_cast<double>(static_cast<float>(scales.moved));
    const auto kept = static_cast<double>(static_cast<float>(scales.kept));
    const auto sum = static_cast<double>(static_cast<float>(scales.sum));
    double nearest = 1;
    for (int a = 0; a < 256; ++a)
      for (int b = 0; b < 256; ++b)
        if (const double value = (a * moved + b * kept) / sum; value < 256)
          nearest = std::min(nearest, distance_from_middle(value));
    CHECK(nearest > 9e-5);  // 1 / (2 · 4095), less what floats are wrong by
  }
}

TEST_CASE("scales that need not be tie-free are those of the rows", "[quantization]") {
  at::manual_seed(4);
  const at::Tensor weight = at::randn({16, 8});
  const ProductScales scales{
      .input = at::scalar_tensor(0.0231F), .output = at::scalar_tensor(0.0417F), .are_tie_free = false};
  const at::Tensor plain = quantize_product(weight, {}, scales).weight.scales;
  CHECK(plain.equal(scales_of_rows(weight)));
  ProductScales tie_free = scales;
  tie_free.are_tie_free = true;
  CHECK(quantize_product(weight, {}, tie_free).weight.scales.gt(plain).all().item<bool>());
}

TEST_CASE("a bias is an integer of steps, which floats count exactly", "[quantization]") {
  at::manual_seed(3);
  at::Tensor weight = at::randn({16, 8, 3, 3});
  weight[3].zero_();  // a channel that training switched off, but for its bias
  weight[4].mul_(1e-6);
  const at::Tensor bias = at::randn({16});
  const at::Tensor input = at::scalar_tensor(0.0231F);
  const Int8Product product = quantize_product(weight, bias, {.input = input, .output = at::scalar_tensor(0.0417F)});
  const at::Tensor step = product.weight.scales.mul(input).to(at::kDouble);
  const at::Tensor steps = product.bias.to(at::kDouble).div(step);
  CHECK(steps.abs().max().item<double>() < (1 << 22));
  CHECK(steps.sub(steps.round()).abs().max().item<double>() < 0.01);
  CHECK(product.bias.sub(bias).abs().sub(step.mul(0.501)).max().item<double>() <= 0);
  const at::Tensor error = dequantize(product.weight).sub(weight).abs().amax({1, 2, 3});
  CHECK(error.sub(product.weight.scales.mul(0.501)).max().item<double>() <= 0);
}

}  // namespace
}  // namespace trainctl::quantization::tie_free_scales_test

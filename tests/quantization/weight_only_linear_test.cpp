// Matrices of 8 and 4 bits against the floats they came from, weight by weight: no weight is further than half a step.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "model/layers/linear.h"
#include "quantization/layer/quantized_linear.h"

namespace trainctl::quantization::weight_only_linear_test {
namespace {

constexpr std::int64_t kIn = 64;
constexpr std::int64_t kOut = 32;

/// Weights of other sizes and other means from group to group.
at::Tensor uneven_weights() {
  const at::Tensor waves = at::arange(kOut * kIn, at::kFloat).mul(0.7).sin().view({kOut, kIn});
  return waves.mul(at::arange(1, kOut + 1, at::kFloat).unsqueeze(1)).add(at::arange(kIn, at::kFloat).mul(0.3).cos());
}

void give_memory(model::Layer& layer, const at::Tensor& weight) {
  layer.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    decl.value = name == "weight" ? weight.clone() : at::zeros(decl.value.sizes());
  });
  layer.visit_buffers([](const std::string&, model::TensorDecl& decl) {
    decl.value = at::zeros(decl.value.sizes(), decl.value.options().device(at::kCPU));
  });
}

/// What the product with each row of the identity gives: [out, in]. `rows` at a time.
at::Tensor matrix_of_products(model::Linear& layer, QuantizedLayer& quantized, std::int64_t rows) {
  std::vector<at::Tensor> columns;
  for (const at::Tensor& part : at::eye(kIn).split(rows))
    columns.push_back(quantized.compute(layer, part.contiguous()));
  return at::cat(columns).t();
}

/// Half a step of each weight's group, as [out, in]: 2^bits - 1 steps from the least to the largest with 4 bits, 127
/// from 0 to the largest magnitude with 8.
at::Tensor half_steps(const at::Tensor& weight, const WeightOnlyFormat& format) {
  const at::Tensor groups = weight.view({kOut, -1, format.group_size});
  const at::Tensor steps =
      format.bits == 4 ? groups.amax(2).sub(groups.amin(2)).div(15) : groups.abs().amax(2).div(127);
  return steps.div(2).unsqueeze(2).expand_as(groups).reshape({kOut, kIn});
}

}  // namespace

TEST_CASE("each weight of few bits is the nearest level", "[quantization]") {
  const at::NoGradGuard no_grad;
  const auto bits = GENERATE(std::int64_t{8}, std::int64_t{4});
  const auto group_size = GENERATE(std::int64_t{32}, std::int64_t{64});
  const auto rows = GENERATE(std::int64_t{1}, std::int64_t{4}, std::int64_t{16});  // one row goes another way than many
  const WeightOnlyFormat format{.bits = bits, .group_size = group_size};
  INFO(bits << " bits, groups of " << group_size << ", " << rows << " rows");

  model::Linear layer(kIn, kOut);
  const at::Tensor weight = uneven_weights();
  give_memory(layer, weight);
  const auto quantized = weight_only_linear(layer, format);
  give_memory(*quantized, weight);
  quantized->convert();
  quantized->set_mode(LayerMode::quantized, [](const std::string&) { return true; });
  quantized->prepare();

  const at::Tensor error = matrix_of_products(layer, *quantized, rows).sub(weight).abs();
  // Beyond half a step: what products of floats round away.
  const at::Tensor allowed = half_steps(weight, format).add(weight.abs().mul(1e-5)).add(1e-5);
  CHECK(error.sub(allowed).max().item<float>() <= 0);
}

}  // namespace trainctl::quantization::weight_only_linear_test

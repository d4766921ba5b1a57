#include "quantization/layer/portable_rounding.h"

#include <ATen/TracerMode.h>
#include <ATen/ops/_make_per_channel_quantized_tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/zeros.h>

namespace trainctl::quantization {
namespace {

constexpr double kSmallestDynamicScale = 6.1e-5;  // LibTorch's, of a range that is found anew for each batch

/// Returns zeros that are a constant of the graph, not an operator that makes them.
at::Tensor zeros(at::IntArrayRef shape) {
  const at::tracer::impl::NoTracerDispatchMode untraced;
  return at::zeros(shape, at::TensorOptions().dtype(at::kLong));
}

}  // namespace

at::Tensor round_to(const at::Tensor& value, const QParamBuffers& levels, ActivationScheme activations) {
  if (activations == ActivationScheme::symmetric)
    return at::quantize_per_tensor(value, levels.scale(), zeros({}), at::kQInt8);
  return at::quantize_per_tensor(value, levels.scale(), levels.zero_point(), at::kQUInt8);
}

at::Tensor round_to_own_range(const at::Tensor& value, std::int64_t bits) {
  const at::Tensor low = at::amin(value).clamp_max(0);
  const at::Tensor high = at::amax(value).clamp_min(0);
  const at::Tensor step = high.sub(low).div(static_cast<double>((std::int64_t{1} << bits) - 1));
  const at::Tensor zero_point = low.neg().div(step.clamp_min(1e-30)).round().to(at::kLong);
  return at::quantize_per_tensor(value, step.clamp_min(kSmallestDynamicScale), zero_point, at::kQUInt8);
}

at::Tensor floats_of(const Int8Weight& weight) {
  return at::_make_per_channel_quantized_tensor(weight.levels, weight.scales, zeros({weight.levels.size(0)}),
                                                /*axis=*/0)
      .dequantize();
}

}  // namespace trainctl::quantization

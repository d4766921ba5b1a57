#include "quantization/backend.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_make_per_channel_quantized_tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/round.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/error.h"
#include "machine/cpu.h"
#include "quantization/workarounds/tie_free_scales.h"

namespace trainctl::quantization {
namespace {

bool has_vnni() {
  return machine::onednn_features().avx512_vnni;
}

at::QEngine engine_of(QuantizationBackend backend) {
  switch (backend) {
    case QuantizationBackend::x86:
      return at::kX86;
    case QuantizationBackend::onednn:
      return at::kONEDNN;
    case QuantizationBackend::fbgemm:
      return at::kFBGEMM;
    case QuantizationBackend::qnnpack:
      return at::kQNNPACK;
    case QuantizationBackend::auto_:
      break;
  }
  throw std::logic_error("a backend that isn't resolved");
}

bool is_supported(QuantizationBackend backend) {
  const std::vector<at::QEngine>& engines = at::globalContext().supportedQEngines();
  return std::find(engines.begin(), engines.end(), engine_of(backend)) != engines.end();
}

/// Reshapes [out] to [out, 1, ...].
at::Tensor along_rows(const at::Tensor& scales, const at::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[0] = scales.size(0);
  return scales.view(shape);
}

std::optional<at::Tensor> optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// Calls an operator with boxed values: its C++ types are no public interface.
template <class... Arguments>
c10::IValue call(const c10::OperatorHandle& op, Arguments&&... arguments) {
  torch::jit::Stack stack;
  (stack.emplace_back(std::forward<Arguments>(arguments)), ...);
  op.callBoxed(stack);
  return std::move(stack.at(0));
}

at::Tensor finite_scales_of_rows(const at::Tensor& rows) {
  at::Tensor scales = scales_of_rows(rows);
  if (!scales.isfinite().all().item<bool>()) throw core::Error("a weight isn't finite");
  return scales;
}

constexpr double kMostStepsOfBias = 1 << 22;

}  // namespace

c10::OperatorHandle find_operator(const char* name, const char* overload) {
  if (const auto found = c10::Dispatcher::singleton().findSchema({name, overload})) return *found;
  throw core::Error("this LibTorch lacks the operator " + std::string(name) + ", which eight bits need")
      .hint("a LibTorch built with FBGEMM, QNNPACK and oneDNN, as the wheel of PyPI is; or another --backend");
}

QuantizationBackend resolved(QuantizationBackend backend, RowsAtOnce rows, ActivationScheme activations) {
  if (backend == QuantizationBackend::auto_) {
    const bool needs_eight_bits = activations == ActivationScheme::symmetric;
    if ((needs_eight_bits || rows == RowsAtOnce::many) && has_vnni() && is_supported(QuantizationBackend::onednn))
      return QuantizationBackend::onednn;
    if (needs_eight_bits) return QuantizationBackend::qnnpack;
    return is_supported(QuantizationBackend::x86) ? QuantizationBackend::x86 : QuantizationBackend::qnnpack;
  }
  if (!is_supported(backend))
    throw core::Error("this LibTorch has no engine " + std::string(config::name_of(backend)) + " on this CPU")
        .hint("quantization.backend: auto, or --backend auto");
  return backend;
}

void select_backend(QuantizationBackend backend) {
  at::globalContext().setQEngine(engine_of(backend));
}

std::int64_t activation_bits(QuantizationBackend backend) {
  if (backend == QuantizationBackend::qnnpack) return 8;
  return backend == QuantizationBackend::onednn && has_vnni() ? 8 : 7;
}

bool saturates_beyond_range(QuantizationBackend backend) {
  return backend != QuantizationBackend::qnnpack && !has_vnni();
}

void check_activations(std::int64_t bits, ActivationScheme activations) {
  if (activations == ActivationScheme::symmetric && bits != 8)
    throw core::Error("symmetric activations have 8 bits, and these have " + std::to_string(bits))
        .hint("backend qnnpack, or onednn where the CPU has VNNI, has 8; or activation_scheme: affine");
}

at::Tensor scales_of_rows(const at::Tensor& rows) {
  return rows.flatten(1).abs().amax(1).div(127.5).clamp_min(kSmallestScale);
}

Int8Product quantize_product(const at::Tensor& weight, const at::Tensor& bias, const ProductScales& scales) {
  at::Tensor rows = scales.given.defined() ? scales.given.to(at::kFloat) : finite_scales_of_rows(weight.detach());
  at::Tensor floats;
  if (bias.defined()) {
    floats = bias.detach().to(at::kFloat);
    rows = at::maximum(rows, floats.abs().div(scales.input.mul(kMostStepsOfBias)));
  }
  if (scales.are_tie_free && !scales.given.defined()) rows = middle_free_rows(rows, scales.input, scales.output);
  Int8Product product{.weight = quantize_rows(weight, rows), .bias = {}};
  const at::Tensor step = product.weight.scales.mul(scales.input);
  if (bias.defined()) product.bias = floats.div(step).round_().mul_(step);
  return product;
}

Int8Weight quantize_rows(const at::Tensor& weight, const at::Tensor& scales) {
  const at::Tensor rows = weight.detach().to(at::kFloat).contiguous();
  const at::Tensor steps = scales.defined() ? scales : finite_scales_of_rows(rows);
  // Times the reciprocal, as fake_quantize has it: a smallest value lies half way between two levels.
  const at::Tensor levels = rows.mul(along_rows(steps.reciprocal(), rows)).round_().clamp_(-128, 127).to(at::kChar);
  return {.levels = levels, .scales = steps.to(at::kFloat)};
}

at::Tensor dequantize(const Int8Weight& weight) {
  return weight.levels.to(at::kFloat).mul(along_rows(weight.scales, weight.levels));
}

at::Tensor as_quantized_tensor(const Int8Weight& weight) {
  return at::_make_per_channel_quantized_tensor(
      weight.levels, weight.scales.to(at::kDouble),
      at::zeros({weight.levels.size(0)}, at::TensorOptions().dtype(at::kLong)), /*axis=*/0);
}

PackedLinear pack_linear(const Int8Weight& weight, const at::Tensor& bias) {
  static const c10::OperatorHandle op = find_operator("quantized::linear_prepack");
  return call(op, as_quantized_tensor(weight), optional(bias)).toCustomClass<LinearPackedParamsBase>();
}

OneDnnLinear pack_onednn_linear(const Int8Weight& weight, const at::Tensor& bias) {
  static const c10::OperatorHandle op = find_operator("onednn::qlinear_prepack");
  return {.weight = call(op, weight.levels.contiguous(), std::optional<std::vector<std::int64_t>>()).toTensor(),
          .scales = weight.scales,
          .zero_points = at::zeros({weight.levels.size(0)}, at::TensorOptions().dtype(at::kInt)),
          .bias = bias};
}

at::Tensor multiply(const OneDnnLinear& linear, const at::Tensor& input, const QParams& levels) {
  static const c10::OperatorHandle op = find_operator("onednn::qlinear_pointwise");
  const at::Tensor contiguous = input.contiguous();
  const at::Tensor bytes =
      at::from_blob(contiguous.data_ptr(), contiguous.sizes(), at::TensorOptions().dtype(at::kByte));
  constexpr double kNoScale = 1;  // of an output that is levels
  constexpr std::int64_t kNoZeroPoint = 0;
  return call(op, bytes, levels.scale, levels.zero_point, linear.weight, linear.scales, linear.zero_points,
              optional(linear.bias), kNoScale, kNoZeroPoint, std::optional<at::ScalarType>(at::kFloat),
              std::string("none"), c10::List<std::optional<at::Scalar>>(), std::string())
      .toTensor();
}

PackedConvolution pack_convolution(const Int8Weight& weight, const at::Tensor& bias, const ConvolutionShape& shape) {
  static const c10::OperatorHandle op = find_operator("quantized::conv2d_prepack");
  return call(op, as_quantized_tensor(weight), optional(bias), shape.stride, shape.padding, shape.dilation,
              shape.groups)
      .toCustomClass<ConvPackedParamsBase<2>>();
}

at::Tensor add_quantized(const at::Tensor& left, const at::Tensor& right, Then then, const QParams& levels) {
  static const c10::OperatorHandle add = find_operator("quantized::add");
  static const c10::OperatorHandle add_relu = find_operator("quantized::add_relu");
  return call(then == Then::relu ? add_relu : add, left, right, levels.scale, levels.zero_point).toTensor();
}

at::Tensor batch_norm_quantized(const at::Tensor& input, const NormStatistics& norm, Then then, const QParams& levels) {
  static const c10::OperatorHandle plain = find_operator("quantized::batch_norm2d");
  static const c10::OperatorHandle relu = find_operator("quantized::batch_norm2d_relu");
  const at::Tensor image = input.dim() == 2 ? input.view({input.size(0), input.size(1), 1, 1}) : input;
  return call(then == Then::relu ? relu : plain, image, norm.weight, norm.bias, norm.mean, norm.variance, norm.epsilon,
              levels.scale, levels.zero_point)
      .toTensor()
      .view(input.sizes());
}

at::Tensor to_levels(const at::Tensor& value, const QParams& levels) {
  return at::quantize_per_tensor(value, levels.scale, levels.zero_point, at::kQUInt8);
}

}  // namespace trainctl::quantization

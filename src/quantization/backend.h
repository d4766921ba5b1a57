// LibTorch's engines for eight bits, and their packed weights.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/quantized/PackedParams.h>

#include <cstdint>
#include <string>
#include <vector>

#include "quantization/config.h"

namespace trainctl::quantization {

/// Finds an operator that only LibTorch's dispatcher declares. An operator that this LibTorch lacks is an Error.
c10::OperatorHandle find_operator(const char* name, const char* overload = "");

/// The number of rows in a network's products; a recurrent network's have one row per sample and time step.
enum class RowsAtOnce { few, many };

/// Returns the backend that `auto` means on this CPU. It is oneDNN if the CPU has VNNI, else FBGEMM (in x86). For few
/// rows it is always FBGEMM, since each product costs oneDNN more than its work. Symmetric levels need eight bits: for
/// them it is oneDNN if the CPU has VNNI, else QNNPACK. A backend that this LibTorch lacks is an Error.
QuantizationBackend resolved(QuantizationBackend backend, RowsAtOnce rows = RowsAtOnce::many,
                             ActivationScheme activations = ActivationScheme::affine);

/// Makes LibTorch use it, in this process.
void select_backend(QuantizationBackend backend);

/// Seven where the engine adds two products of bytes in sixteen bits on this CPU, which overflow with eight.
std::int64_t activation_bits(QuantizationBackend backend);
/// Whether the engine's sums of two products saturate on this CPU for activations beyond the calibrated range.
/// QNNPACK's never do; the other engines' sums are exact where the CPU has VNNI.
bool saturates_beyond_range(QuantizationBackend backend);
/// Throws an Error if symmetric levels have other than eight bits. Runtimes that read them as signed bytes cut values
/// beyond the calibrated range at its end; our engines do not.
void check_activations(std::int64_t bits, ActivationScheme activations);

/// The smallest distance between levels: float's epsilon, as in torch.ao.
inline constexpr double kSmallestScale = 1.1920928955078125e-07;

/// Where an activation's levels lie: value = (level - zero_point) · scale.
struct QParams {
  double scale = 1;
  std::int64_t zero_point = 0;
};

/// A matrix, or a convolution's kernels, in eight bits: value = level · scale of its row.
struct Int8Weight {
  at::Tensor levels;  // int8 [out, ...]
  at::Tensor scales;  // float [out]
};

/// Float [out] of float [out, ...]: the distance with which -128 to 127 reach each row's largest magnitude.
at::Tensor scales_of_rows(const at::Tensor& rows);

/// Symmetric, for each output channel; scales that are given (float [out]) are kept. Without, what isn't
/// finite is an Error.
Int8Weight quantize_rows(const at::Tensor& weight, const at::Tensor& scales = {});
/// The weight and the bias of a product between levels, whose sums all engines round to the same levels if the scales
/// are tie-free (workarounds/tie_free_scales.h). Given scales of rows (of training, whose weights lie on them) are
/// kept, unless the bias needs larger ones. The bias (float [out]; undefined stays so) becomes an integer of the sums'
/// steps, as in runtimes that add integers. It has at most 2^22 steps, so that floats count them exactly.
struct Int8Product {
  Int8Weight weight;
  at::Tensor bias;
};
struct ProductScales {
  at::Tensor input;    // float []
  at::Tensor output;   // float []
  at::Tensor given{};  // of the rows, float [out]; undefined: to be found
  bool are_tie_free = true;
};
Int8Product quantize_product(const at::Tensor& weight, const at::Tensor& bias, const ProductScales& scales);

/// Returns the weight as a float tensor.
at::Tensor dequantize(const Int8Weight& weight);
/// Returns the weight as the quantized tensor that LibTorch's operators take.
at::Tensor as_quantized_tensor(const Int8Weight& weight);

using PackedLinear = c10::intrusive_ptr<LinearPackedParamsBase>;
using PackedConvolution = c10::intrusive_ptr<ConvPackedParamsBase<2>>;

struct ConvolutionShape {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  std::int64_t groups = 1;
};

/// For the engine that is selected; `bias` float [out], or undefined.
PackedLinear pack_linear(const Int8Weight& weight, const at::Tensor& bias);

/// oneDNN's own form of a linear layer whose results are floats: LibTorch's common one rounds them to levels first.
struct OneDnnLinear {
  at::Tensor weight;
  at::Tensor scales;       // float [out]
  at::Tensor zero_points;  // int32 [out]
  at::Tensor bias;         // float [out], or undefined
};
OneDnnLinear pack_onednn_linear(const Int8Weight& weight, const at::Tensor& bias);
/// quint8 [..., in] -> float [..., out].
at::Tensor multiply(const OneDnnLinear& linear, const at::Tensor& input, const QParams& levels);

PackedConvolution pack_convolution(const Int8Weight& weight, const at::Tensor& bias, const ConvolutionShape& shape);

/// quantized::add or quantized::add_relu.
enum class Then { nothing, relu };
at::Tensor add_quantized(const at::Tensor& left, const at::Tensor& right, Then then, const QParams& levels);

struct NormStatistics {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;
  at::Tensor variance;
  double epsilon;
};
/// Normalizes an image [B, C, H, W] or rows [B, C].
at::Tensor batch_norm_quantized(const at::Tensor& input, const NormStatistics& norm, Then then, const QParams& levels);

/// float -> quint8.
at::Tensor to_levels(const at::Tensor& value, const QParams& levels);

}  // namespace trainctl::quantization

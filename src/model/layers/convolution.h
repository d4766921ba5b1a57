// Two-dimensional convolution with a square kernel, PyTorch's names and layout.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/convolution.h"
#include "model/layer.h"
#include "model/layers/bias.h"
#include "model/layers/image_shape.h"

namespace trainctl::model {

/// uniform_fan_in: PyTorch's default, ±1/√fan_in. normal_fan_out: https://arxiv.org/abs/1502.01852, for ReLU.
enum class ConvolutionInit { uniform_fan_in, normal_fan_out };

struct ConvolutionSpec {
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t kernel_size;
  std::int64_t stride = 1;
  Bias bias = Bias::none;
  ConvolutionInit init = ConvolutionInit::normal_fan_out;
  std::optional<std::int64_t> padding{};  // none: dilation (kernel_size - 1) / 2
  std::int64_t dilation = 1;
  std::int64_t groups = 1;

  std::int64_t padding_or_same() const { return padding.value_or(dilation * (kernel_size - 1) / 2); }
};

/// Without a padding of its own, and with stride 1 and an odd kernel, height and width stay.
class Convolution final : public UnaryLayer {
 public:
  explicit Convolution(const ConvolutionSpec& spec);
  at::Tensor compute(const at::Tensor& input) override;  // [B, in, H, W] -> [B, out, H', W']

  const ConvolutionSpec& spec() const { return spec_; }
  void set_winograd(kernels::Winograd winograd) { winograd_ = winograd; }

  ImageShape output_shape(const ImageShape& input) const;
  /// Returns the FLOPs of the forward pass of one sample.
  double flops(const ImageShape& input) const;

 private:
  ConvolutionSpec spec_;
  at::Tensor& weight_;  // [out, in / groups, k, k]
  at::Tensor* bias_;    // [out], or null
  kernels::Winograd winograd_ = kernels::Winograd::where_it_suits;
};

}  // namespace trainctl::model

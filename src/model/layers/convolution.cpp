#include "model/layers/convolution.h"

#include <cmath>

namespace trainctl::model {
namespace {

Init weight_init(const ConvolutionSpec& spec) {
  const auto area = static_cast<double>(spec.kernel_size * spec.kernel_size);
  const auto inputs = static_cast<double>(spec.in_channels / spec.groups);
  if (spec.init == ConvolutionInit::normal_fan_out)
    return Init::normal(0, std::sqrt(2 / (area * static_cast<double>(spec.out_channels))));
  return Init::uniform(1 / std::sqrt(area * inputs));
}

Init bias_init(const ConvolutionSpec& spec) {
  return Init::uniform(
      1 / std::sqrt(static_cast<double>(spec.kernel_size * spec.kernel_size * spec.in_channels / spec.groups)));
}

}  // namespace

Convolution::Convolution(const ConvolutionSpec& spec)
    : spec_(spec),
      weight_(parameter("weight",
                        {spec.out_channels, spec.in_channels / spec.groups, spec.kernel_size, spec.kernel_size},
                        weight_init(spec))),
      bias_(spec.bias == Bias::none ? nullptr : &parameter("bias", {spec.out_channels}, bias_init(spec))) {}

at::Tensor Convolution::compute(const at::Tensor& input) {
  return kernels::convolution(
      input, weight_, bias_ == nullptr ? std::nullopt : std::optional(*bias_),
      {.stride = spec_.stride, .padding = spec_.padding_or_same(), .dilation = spec_.dilation, .groups = spec_.groups},
      winograd_);
}

ImageShape Convolution::output_shape(const ImageShape& input) const {
  const std::int64_t reach = spec_.dilation * (spec_.kernel_size - 1) + 1;
  const auto side = [&](std::int64_t length) {
    return (length + 2 * spec_.padding_or_same() - reach) / spec_.stride + 1;
  };
  return {.channels = spec_.out_channels, .height = side(input.height), .width = side(input.width)};
}

double Convolution::flops(const ImageShape& input) const {
  return 2.0 * static_cast<double>(weight_.numel()) * static_cast<double>(output_shape(input).pixels());
}

}  // namespace trainctl::model

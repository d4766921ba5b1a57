#include "kernels/convolution.h"

#include <ATen/ops/conv2d.h>

namespace trainctl::kernels {

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       const ConvolutionGeometry& geometry, Winograd winograd) {
  const auto& [stride, padding, dilation, groups] = geometry;
  if (winograd == Winograd::where_it_suits && stride == 1 && padding == 1 && dilation == 1 && groups == 1 &&
      suits_winograd(input, weight))
    return winograd_convolution(input, weight, bias);
  return at::conv2d(input, weight, bias, {stride, stride}, at::IntArrayRef{padding, padding}, {dilation, dilation},
                    groups);
}

}  // namespace trainctl::kernels

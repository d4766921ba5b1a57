// Scales with which no result of a product or a sum lies in the middle between two levels, or so close to it that
// rounding errors of floats decide to which it goes. So all engines, and runtimes of exported graphs, give the same
// levels, whatever the order in which they multiply, add and round.
// Remove them once LibTorch's engines and ONNX Runtime round sums at the same place: the tests of the exporters then
// pass with quantization.engine_workarounds false.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::quantization {

/// Returns the next larger tie-free scales of a product's rows. A step of the sums is the input's scale · the row's. q
/// steps are 2^j of the output's levels, with q odd and at most 8191. `rows` float [out]; `input`, `output` float [].
at::Tensor middle_free_rows(const at::Tensor& rows, const at::Tensor& input, const at::Tensor& output);

/// The scales of two values and of their sum.
struct SumScales {
  double kept = 1;
  double moved = 1;
  double sum = 1;
};
/// Returns the next larger scales `moved` and `sum` that are multiples of kept / 2^j, the sum's odd and at most 4095.
SumScales middle_free(SumScales scales);

}  // namespace trainctl::quantization

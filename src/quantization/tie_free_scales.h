// Scales with which no result of a product or a sum lies in the middle between two levels, or so close to it that
// rounding errors of floats decide to which it goes. So all engines, and runtimes of exported graphs, give the same
// levels, whatever the order in which they multiply, add and round.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainctl::quantization {

/// Of a product's rows: the next larger ones. Sums go in steps of the input's scale · the row's; q such steps are 2^j
/// of the output's levels, where q is odd and at most 8191. `rows` float [out]; `input`, `output` float [].
at::Tensor middle_free_rows(const at::Tensor& rows, const at::Tensor& input, const at::Tensor& output);

/// Of two values and their sum: the next larger ones of `moved` and `sum`, which become whole numbers of 2^-j ths of
/// `kept`, the sum's odd and at most 4095.
struct SumScales {
  double kept = 1;
  double moved = 1;
  double sum = 1;
};
SumScales middle_free(SumScales scales);

}  // namespace trainctl::quantization

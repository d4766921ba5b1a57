#include "quantization/workarounds/tie_free_scales.h"

#include <ATen/ops/exp2.h>

#include <algorithm>
#include <cmath>

namespace trainctl::quantization {
namespace {

// Results are at least 1 / (2 · this) levels from a middle; floats of 255 levels are right to 1 / 65536.
constexpr double kMostSteps = 8191;
constexpr double kMostPartsOfSum = 4095;  // ONNX Runtime adds with multipliers of 22 bits

}  // namespace

at::Tensor middle_free_rows(const at::Tensor& rows, const at::Tensor& input, const at::Tensor& output) {
  const at::Tensor level = output.to(at::kDouble).div(input);  // in steps of a row whose scale is 1
  const at::Tensor steps = level.div(rows);
  const at::Tensor levels = at::exp2(steps.reciprocal().mul(kMostSteps).log2().floor().clamp_min(0));
  const at::Tensor odd = steps.mul(levels).clamp_max(kMostSteps).sub(1).div(2).floor().mul(2).add(1);
  return levels.mul(level).div(odd).to(at::kFloat);
}

SumScales middle_free(SumScales scales) {
  const double parts = std::exp2(std::max(0.0, std::floor(std::log2(kMostPartsOfSum * scales.kept / scales.sum))));
  const double unit = scales.kept / parts;
  return {.kept = scales.kept,
          .moved = unit * std::ceil(scales.moved / unit),
          .sum = unit * (2 * std::ceil((scales.sum / unit - 1) / 2) + 1)};
}

}  // namespace trainctl::quantization

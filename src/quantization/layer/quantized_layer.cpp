#include "quantization/layer/quantized_layer.h"

#include <ATen/ops/full.h>

#include <cmath>

#include "core/error.h"

namespace trainctl::quantization {

void QParamBuffers::write(const QParams& levels) {
  *scale_ = at::full({}, levels.scale, at::TensorOptions().dtype(at::kFloat));
  *zero_point_ = at::full({}, levels.zero_point, at::TensorOptions().dtype(at::kLong));
}

QParams QParamBuffers::read(const std::string& what) const {
  const QParams levels{.scale = scale_->item<double>(), .zero_point = zero_point_->item<std::int64_t>()};
  if (!std::isfinite(levels.scale) || levels.scale <= 0 || levels.zero_point < 0 || levels.zero_point > 255)
    throw core::Error("the levels of " + what + " are damaged: scale " + std::to_string(levels.scale) +
                      ", zero point " + std::to_string(levels.zero_point));
  return levels;
}

at::Tensor own_parameter(model::Layer& layer, const std::string& name) {
  at::Tensor found;
  layer.visit_parameters([&](const std::string& full, model::TensorDecl& decl) {
    if (full == name) found = decl.value;
  });
  return found;
}

}  // namespace trainctl::quantization

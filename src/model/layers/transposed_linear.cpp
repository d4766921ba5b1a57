#include "model/layers/transposed_linear.h"

namespace trainctl::model {

TransposedLinear::TransposedLinear(std::int64_t in_features, std::int64_t out_features, Init weight)
    : weight_(parameter("weight", {in_features, out_features}, weight)),
      bias_(parameter("bias", {out_features}, Init::constant(0))) {}

double TransposedLinear::flops() const {
  return 2.0 * static_cast<double>(weight_.numel());
}

}  // namespace trainctl::model

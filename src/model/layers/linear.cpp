#include "model/layers/linear.h"

#include <cmath>

namespace trainctl::model {
namespace {

Init fan_in_uniform(std::int64_t fan_in) {
  return Init::uniform(1 / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, Bias bias)
    : weight_(parameter("weight", {out_features, in_features}, fan_in_uniform(in_features))),
      bias_(bias == Bias::learned ? &parameter("bias", {out_features}, fan_in_uniform(in_features)) : nullptr) {}

Linear::Linear(std::int64_t in_features, std::int64_t out_features, Init weight, Bias bias)
    : weight_(parameter("weight", {out_features, in_features}, weight)),
      bias_(bias == Bias::learned ? &parameter("bias", {out_features}, Init::constant(0)) : nullptr) {}

double Linear::flops() const {
  return 2.0 * static_cast<double>(weight_.numel());
}

}  // namespace trainctl::model

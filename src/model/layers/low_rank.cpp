#include "model/layers/low_rank.h"

#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/error.h"

namespace trainctl::model {

LowRankAdapter::LowRankAdapter(std::int64_t in_features, std::int64_t out_features, const LowRankSpec& spec)
    : a_(parameter("lora_A.weight", {spec.rank, in_features},
                   Init::uniform(1 / std::sqrt(static_cast<double>(in_features))))),
      b_(parameter("lora_B.weight", {out_features, spec.rank}, Init::constant(0))),
      dropout_(child<Dropout>("dropout", spec.dropout)),
      scale_(spec.scale) {}

at::Tensor LowRankAdapter::compute(const at::Tensor& input) {
  // Scales the low-rank tensor, which has the fewest values.
  return at::linear(at::linear(dropout_.forward(input), a_).mul(scale_), b_);
}

at::Tensor LowRankAdapter::product() const {
  return b_.mm(a_).mul(scale_);
}

at::Tensor MatrixLayer::compute(const at::Tensor& input) {
  const at::Tensor output = multiply(input);
  return adapter_ == nullptr ? output : output.add(adapter_->forward(input));
}

void MatrixLayer::adapt(const LowRankSpec& spec) {
  core::ensure(adapter_ == nullptr, "a layer has one adapter at most");
  const at::Tensor own = matrix();
  adapter_ = &child<LowRankAdapter>("", own.size(1), own.size(0), spec);
}

void MatrixLayer::merge() {
  if (adapter_ == nullptr) return;
  const c10::NoGradGuard no_grad;
  matrix().add_(adapter_->product());
  remove_child(*adapter_);
  adapter_ = nullptr;
}

}  // namespace trainctl::model

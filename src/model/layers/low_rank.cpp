#include "model/layers/low_rank.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "core/error.h"
#include "kernels/matrix_product.h"
#include "kernels/portable.h"

namespace trainctl::model {
namespace {

std::optional<at::Tensor> if_any(const at::Tensor* tensor) {
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

}  // namespace

LowRankAdapter::LowRankAdapter(std::int64_t in_features, std::int64_t out_features, const LowRankSpec& spec)
    : a_(parameter("lora_A.weight", {spec.rank, in_features},
                   Init::uniform(1 / std::sqrt(static_cast<double>(in_features))))),
      b_(parameter("lora_B.weight", {out_features, spec.rank}, Init::constant(0))),
      dropout_(child<Dropout>("dropout", spec.dropout)),
      scale_(spec.scale),
      in_features_(in_features) {}

void LowRankAdapter::split_as(MatrixSplit how, const TensorRanksPtr& ranks, std::int64_t sections) {
  split_ = how;
  ranks_ = ranks;
  if (how == MatrixSplit::outputs) keep_part(b_, 0, *ranks, sections);
  if (how == MatrixSplit::inputs) keep_part(a_, 1, *ranks);
}

at::Tensor LowRankAdapter::compute(const at::Tensor& input) {
  // With shared tokens the gradients of all that is whole in a block are summed once: TensorDecl::sums_gradient.
  const bool sums_gradient = split_ == MatrixSplit::outputs && !ranks_->shares_tokens;
  const at::Tensor a = sums_gradient ? use_in_parts(a_, ranks_) : a_;
  // Scales the low-rank tensor, which has the fewest values.
  const bool has_parts = split_ == MatrixSplit::inputs;
  const at::Tensor kept = has_parts ? dropout_.forward_part(input, in_features_, ranks_) : dropout_.forward(input);
  at::Tensor low = at::linear(kept, a).mul(scale_);
  if (has_parts) low = leave_split_layer(low, ranks_);
  return at::linear(low, b_);
}

at::Tensor LowRankAdapter::product() const {
  return b_.mm(a_).mul(scale_);
}

at::Tensor MatrixLayer::compute(const at::Tensor& input) {
  return multiply(input, if_any(bias()));
}

MatrixLayer::BeforeBias MatrixLayer::forward_before_bias(const at::Tensor& input) {
  // In mixed precision on a CPU, oneDNN adds the bias on the way.
  const bool adds_it = bias() == nullptr || is_replaced() || kernels::PortableOperators::are_wanted() ||
                       (input.is_cpu() && at::autocast::is_autocast_enabled(at::kCPU));
  if (adds_it) return {.output = forward(input), .bias = {}};
  const LayerSpan span(*this);
  return {.output = multiply(input, std::nullopt), .bias = *bias()};
}

bool MatrixLayer::is_plain_product() const {
  return !is_replaced() && adapter_ == nullptr && split_ != MatrixSplit::inputs;
}

std::vector<at::Tensor> MatrixLayer::forward_together(const std::vector<const MatrixLayer*>& layers,
                                                      const at::Tensor& input) {
  std::vector<kernels::LinearFactors> factors;
  for (const MatrixLayer* layer : layers) factors.push_back({.weight = layer->matrix(), .bias = if_any(layer->bias())});
  return kernels::linear_products(input, factors);
}

at::Tensor MatrixLayer::multiply(const at::Tensor& input, const std::optional<at::Tensor>& offset) const {
  const bool gives_parts = split_ == MatrixSplit::inputs;
  at::Tensor output = kernels::linear_product(input, matrix(), gives_parts ? std::nullopt : offset);
  if (gives_parts) output = leave_split_layer(output, ranks_);
  if (gives_parts && offset) output = output.add(*offset);
  return adapter_ == nullptr ? output : output.add(adapter_->forward(input));
}

void MatrixLayer::split_outputs(const TensorRanksPtr& ranks, std::int64_t sections) {
  split_ = MatrixSplit::outputs;
  ranks_ = ranks;
  keep_part(weight(), dim_of_outputs(), *ranks, sections);
  if (bias() != nullptr) keep_part(*bias(), 0, *ranks, sections);
  if (adapter_ != nullptr) adapter_->split_as(split_, ranks, sections);
}

void MatrixLayer::split_inputs(const TensorRanksPtr& ranks) {
  split_ = MatrixSplit::inputs;
  ranks_ = ranks;
  keep_part(weight(), 1 - dim_of_outputs(), *ranks);
  if (adapter_ != nullptr) adapter_->split_as(split_, ranks, 1);
}

at::Tensor MatrixLayer::matrix() const {
  return dim_of_outputs() == 0 ? weight() : weight().t();
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

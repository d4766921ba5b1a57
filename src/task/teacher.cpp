#include "task/teacher.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "core/error.h"
#include "core/text.h"
#include "kernels/distillation.h"
#include "runtime/span.h"

namespace trainctl::task {

model::ModelInput whole_input(const model::ModelInput& input) {
  model::ModelInput whole = input;
  whole.blocks = {};
  whole.hidden = at::Tensor();
  return whole;
}

Teacher::Teacher(std::unique_ptr<model::Model> network, const DistillationConfig& config)
    : network_(std::move(network)), temperature_(config.temperature), weight_(config.weight) {
  network_->set_training(false);
}

Teacher::Teacher(at::Tensor stored, const DistillationConfig& config)
    : stored_(std::move(stored)), temperature_(config.temperature), weight_(config.weight) {}

at::Tensor Teacher::logits(const model::ModelInput& input, const std::vector<std::int64_t>& indices) const {
  if (network_ == nullptr) {
    // A placeholder has rows, and no samples.
    if (std::ssize(indices) != input.values.size(0))
      return at::zeros({input.values.size(0), stored_.size(1)}, input.values.options().dtype(at::kFloat));
    return stored_.index_select(0, at::tensor(indices, at::kLong)).to(input.values.device());
  }
  const runtime::Span span("teacher");
  const at::NoGradGuard no_grad;
  return network_->forward(whole_input(input));
}

at::Tensor Teacher::hidden(const model::ModelInput& input) const {
  const runtime::Span span("teacher");
  const at::NoGradGuard no_grad;
  return network_->forward_into_head(whole_input(input),
                                     [](model::VocabularyHead&, const at::Tensor& hidden) { return hidden; });
}

at::Tensor Teacher::blend(const at::Tensor& own, const at::Tensor& student, const at::Tensor& teacher) const {
  if (student.sizes() != teacher.sizes())
    throw core::Error("distillation.teacher has " + core::format_count(teacher.size(-1)) +
                      " outputs, and the trained network has " + core::format_count(student.size(-1)))
        .hint("choose a teacher that was trained on the same classes");
  const auto dtype = student.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor towards = kernels::distillation_losses(student.to(dtype), teacher.to(dtype), temperature_).sum();
  return own.mul(1 - weight_).add(towards, weight_);
}

}  // namespace trainctl::task

#include "optimizer/rule.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace trainctl::optimizer {
namespace {

/// Returns whether strides are equal in each dim in which they matter.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t dim = 0; dim < a.dim(); ++dim)
    if (a.size(dim) != 1 && a.stride(dim) != b.stride(dim)) return false;
  return true;
}

}  // namespace

std::vector<at::Tensor> Active::pick(const std::vector<at::Tensor>& slot) const {
  if (slot.empty() || indices.size() == slot.size()) return slot;
  std::vector<at::Tensor> picked;
  picked.reserve(indices.size());
  for (const std::size_t index : indices) picked.push_back(slot[index]);
  return picked;
}

Active active_of(const ParameterGroup& group) {
  Active active;
  const std::size_t count = group.parameters.size();
  active.indices.reserve(count);
  active.parameters.reserve(count);
  active.gradients.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor& parameter = group.parameters[i];
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (!same_layout(parameter, gradient)) gradient = at::empty_like(parameter).copy_(gradient);
    active.indices.push_back(i);
    active.parameters.push_back(parameter);
    active.gradients.push_back(std::move(gradient));
  }
  return active;
}

std::vector<at::Tensor> zeros_like(const ParameterGroup& group) {
  std::vector<at::Tensor> zeros;
  zeros.reserve(group.parameters.size());
  for (const at::Tensor& parameter : group.parameters) zeros.push_back(at::zeros_like(parameter));
  return zeros;
}

std::vector<at::Tensor> in_memory(std::vector<at::Tensor> tensors) {
  for (at::Tensor& tensor : tensors)
    if (tensor.is_cpu() && !tensor.is_contiguous() && tensor.is_non_overlapping_and_dense())
      tensor = at::as_strided(tensor, {tensor.numel()}, {1}, tensor.storage_offset());
  return tensors;
}

void visit_slot(runtime::State& state, const std::string& slot, const ParameterGroup& group,
                std::vector<at::Tensor>& tensors, FirstValues first_values) {
  const bool of_parameter = first_values == FirstValues::of_parameter;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    state.slot({slot, group.names[i], of_parameter ? group.parameters[i] : at::Tensor()}, tensors[i]);
}

bool overflowed(const at::Tensor& found_inf) {
  return found_inf.defined() && found_inf.item<float>() != 0;
}

at::Tensor beside(const Active& active, const at::Tensor& flag) {
  return flag.defined() ? flag.to(active.parameters.front().device()) : flag;
}

at::Tensor fused_lr(const at::Tensor& lr, const ParameterGroup& group) {
  return lr.mul(group.lr_scale).to(group.parameters.front().device(), at::kFloat);
}

StepCounts::StepCounts(const ParameterGroup& group) {
  if (group.parameters.empty()) return;
  const auto count = static_cast<std::int64_t>(group.parameters.size());
  counts_ = at::zeros({count}, group.parameters.front().options().dtype(at::kFloat).requires_grad(false));
  for (std::int64_t i = 0; i < count; ++i) views_.push_back(counts_.select(0, i));
}

void StepCounts::advance(const Active& active, const at::Tensor& found_inf) {
  const bool all = active.indices.size() == views_.size();
  if (!found_inf.defined()) {
    if (all)
      counts_.add_(1);
    else
      for (const std::size_t index : active.indices) views_[index].add_(1);
    return;
  }
  const at::Tensor one = at::ones_like(found_inf).sub_(found_inf).reshape({});
  if (all)
    counts_.add_(one);
  else
    for (const std::size_t index : active.indices) views_[index].add_(one);
}

void HostStepCounts::visit_state(runtime::State& state, const ParameterGroup& group) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    at::Tensor count = at::from_blob(&counts_[i], {}, at::kLong);
    state.slot({"step", group.names[i]}, count);
  }
}

std::vector<Batch> batches_of(const Active& active) {
  const std::size_t count = active.parameters.size();
  if (count == 0) return {};
  if (!active.parameters.front().is_cpu()) return {{.first = 0, .count = count}};
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < count; ++i) batches.push_back({.first = i, .count = 1});
  return batches;
}

void StepCounts::visit_state(runtime::State& state, const ParameterGroup& group) {
  visit_slot(state, "step", group, views_);
}

}  // namespace trainctl::optimizer

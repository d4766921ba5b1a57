#include "optimizer/optimizer.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

#include "core/error.h"
#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

void check_parameter(const OptimizedParameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  core::ensure(tensor.defined() && !tensor.is_meta(), "parameter " + parameter.name + " has no memory yet");
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble) {
    throw core::Error("cannot optimise parameter " + parameter.name + " of type " + c10::toString(dtype))
        .hint(
            "keep parameters in fp32 and let amp compute in 16 bits: small updates of 16-bit weights vanish in "
            "rounding");
  }
  if (!tensor.is_non_overlapping_and_dense())
    throw core::Error("cannot optimise parameter " + parameter.name + ": its elements are not dense in memory");
}

/// Divides parameters into groups, by device. Those of more than one dimension are decayed; biases and normalization
/// weights only if the config asks for it.
ParameterGroups group(const OptimizerConfig& config, std::vector<OptimizedParameter> parameters) {
  ParameterGroups groups;
  for (const GroupKind kind : {GroupKind::decayed, GroupKind::exempt})
    for (OptimizedParameter& parameter : parameters) {
      const bool is_decayed = config.decay_bias_and_norm || parameter.num_dims > 1;
      if (is_decayed != (kind == GroupKind::decayed)) continue;
      check_parameter(parameter);
      const c10::Device device = parameter.tensor.device();
      auto target = std::ranges::find_if(groups, [&](const ParameterGroup& group) {
        return group.kind == kind && group.parameters.front().device() == device;
      });
      if (target == groups.end())
        target = groups.insert(
            groups.end(),
            {.kind = kind, .weight_decay = is_decayed ? config.weight_decay : 0, .names = {}, .parameters = {}});
      target->names.push_back(std::move(parameter.name));
      target->parameters.push_back(std::move(parameter.tensor));
    }
  return groups;
}

}  // namespace

std::unique_ptr<Optimizer> build(const OptimizerConfig& config, std::vector<OptimizedParameter> parameters) {
  ParameterGroups groups = group(config, std::move(parameters));
  return config.rule.visit([&](const auto& rule) { return build(rule, std::move(groups)); });
}

std::vector<at::Tensor> gradients_of(const std::vector<OptimizedParameter>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const OptimizedParameter& parameter : parameters)
    if (const at::Tensor& gradient = parameter.tensor.grad(); gradient.defined()) gradients.push_back(gradient);
  return gradients;
}

void zero_grad(const std::vector<OptimizedParameter>& parameters) {
  for (const OptimizedParameter& parameter : parameters) parameter.tensor.mutable_grad().reset();
}

}  // namespace trainctl::optimizer

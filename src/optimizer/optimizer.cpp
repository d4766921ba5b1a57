#include "optimizer/optimizer.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/name_pattern.h"
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

/// Returns the last entry that fits the parameter; null if none does.
const ParameterGroupConfig* find_entry(const OptimizerConfig& config, const std::string& name) {
  const auto found = std::find_if(config.param_groups.rbegin(), config.param_groups.rend(),
                                  [&](const auto& entry) { return core::covers_parameter(entry.params, name); });
  return found == config.param_groups.rend() ? nullptr : &*found;
}

bool covers(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& one) { return core::covers_parameter(one, name); });
}

/// Returns `decayed` for parameters of more than one dimension, and for biases and normalization weights only if the
/// config asks for it.
GroupKind kind_of(const OptimizerConfig& config, std::int64_t num_dims) {
  return config.decay_bias_and_norm || num_dims > 1 ? GroupKind::decayed : GroupKind::exempt;
}

/// Returns the group of a parameter, without the parameter.
ParameterGroup group_of(const OptimizerConfig& config, const OptimizedParameter& parameter) {
  ParameterGroup group;
  group.kind = kind_of(config, parameter.num_dims);
  group.is_whole = updates_whole(config, parameter.name, parameter.is_hidden_matrix);
  if (const auto* muon = config.rule.get_if<MuonConfig>(); muon != nullptr && !group.is_whole)
    group.lr_scale = muon->adamw.lr / config.lr;
  double weight_decay = config.weight_decay;
  if (const ParameterGroupConfig* const entry = find_entry(config, parameter.name)) {
    weight_decay = entry->weight_decay.value_or(weight_decay);
    group.lr_scale = entry->lr ? *entry->lr / config.lr : group.lr_scale * entry->lr_scale.value_or(1);
  }
  if (config.layer_decay) group.lr_scale *= std::pow(*config.layer_decay, parameter.blocks_after);
  // The product of rate and decay stays what it is without muP, as in the mup package.
  group.lr_scale *= parameter.lr_scale;
  group.weight_decay = group.kind == GroupKind::decayed ? weight_decay / parameter.lr_scale : 0;
  return group;
}

/// Divides parameters into groups of one device that are updated alike; those that are decayed come first.
ParameterGroups group(const OptimizerConfig& config, std::vector<OptimizedParameter> parameters) {
  ParameterGroups groups;
  for (const GroupKind kind : {GroupKind::decayed, GroupKind::exempt})
    for (OptimizedParameter& parameter : parameters) {
      ParameterGroup own = group_of(config, parameter);
      if (own.kind != kind) continue;
      check_parameter(parameter);
      const c10::Device device = parameter.tensor.device();
      auto target = std::ranges::find_if(groups, [&](const ParameterGroup& other) {
        return other.kind == kind && other.is_whole == own.is_whole && other.weight_decay == own.weight_decay &&
               other.lr_scale == own.lr_scale && other.parameters.front().device() == device;
      });
      if (target == groups.end()) target = groups.insert(groups.end(), std::move(own));
      target->names.push_back(std::move(parameter.name));
      target->parameters.push_back(std::move(parameter.tensor));
    }
  return groups;
}

}  // namespace

std::unique_ptr<Optimizer> build(const PluggedRuleConfig& config, ParameterGroups groups) {
  return config.interface().build(config.config(), std::move(groups));
}

std::unique_ptr<Optimizer> build(const OptimizerConfig& config, std::vector<OptimizedParameter> parameters,
                                 WholeGradients* whole) {
  ParameterGroups groups = group(config, std::move(parameters));
  return config.rule.visit([&](const auto& rule) {
    if constexpr (requires { build(rule, std::move(groups), whole); })
      return build(rule, std::move(groups), whole);
    else
      return build(rule, std::move(groups));
  });
}

bool updates_whole(const OptimizerConfig& config, const std::string& name, bool is_hidden_matrix) {
  const auto* muon = config.rule.get_if<MuonConfig>();
  return muon != nullptr && is_hidden_matrix && !covers(muon->adamw.params, name);
}

void check_parameter_groups(const OptimizerConfig& config, const std::vector<TrainedParameter>& parameters) {
  const auto check = [&](const std::string& key, const std::string& pattern) {
    if (std::ranges::any_of(parameters, [&](const auto& one) { return core::covers_parameter(pattern, one.name); }))
      return;
    throw core::Error(key + ": no trained parameter or layer is called `" + pattern + "`")
        .hint("the parameters are called like '" + parameters[parameters.size() / 2].name + "'");
  };
  for (std::size_t i = 0; i < config.param_groups.size(); ++i) {
    const ParameterGroupConfig& entry = config.param_groups[i];
    const std::string key = "optimizer.param_groups[" + std::to_string(i) + "]";
    check(key, entry.params);
    std::vector<TrainedParameter> taken;
    std::ranges::copy_if(parameters, std::back_inserter(taken),
                         [&](const auto& one) { return find_entry(config, one.name) == &entry; });
    if (taken.empty())
      throw core::Error(key + ": later entries cover all parameters that `" + entry.params +
                        "` does, and the last one decides")
          .hint("order entries from the general to the special");
    const auto is_decayed = [&](const auto& one) { return kind_of(config, one.num_dims) == GroupKind::decayed; };
    if (entry.weight_decay.value_or(0) > 0 && std::ranges::none_of(taken, is_decayed))
      throw core::Error(key + ".weight_decay: `" + entry.params +
                        "` covers biases and norms alone, which have no decay")
          .hint("optimizer.decay_bias_and_norm: true");
  }
  const auto* muon = config.rule.get_if<MuonConfig>();
  if (muon == nullptr || muon->adamw.params.empty()) return;
  for (const std::string& pattern : muon->adamw.params) check("optimizer.adamw.params", pattern);
  if (std::ranges::all_of(parameters,
                          [&](const auto& one) { return one.num_dims < 2 || covers(muon->adamw.params, one.name); }))
    throw core::Error("optimizer.adamw.params: the patterns cover all matrices, so that muon updates none")
        .hint("leave hidden layers out of the patterns, or set optimizer.kind: adamw");
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

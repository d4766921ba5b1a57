// What the update rules share: groups of parameters, and lists of state beside them. For this folder alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/optimizer.h"

namespace trainctl::optimizer {

/// Biases and normalisation weights are exempt from decay, and from lamb's trust ratio.
enum class GroupKind { decayed, exempt };

/// Parameters of one device that are updated alike.
struct ParameterGroup {
  GroupKind kind = GroupKind::decayed;
  bool is_whole = false;  // muon updates them as matrices
  double weight_decay = 0;
  double lr_scale = 1;  // of the learning rate that step() is given
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
};

/// The parameters of a group that have a gradient now.
struct Active {
  std::vector<std::size_t> indices;  // in the group
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;  // laid out in memory as their parameters: the fused operators assume it

  bool empty() const { return indices.empty(); }
  /// Returns the entries of the active parameters from a list with one entry for each parameter of the group. Returns
  /// nothing for an unused (empty) list.
  std::vector<at::Tensor> pick(const std::vector<at::Tensor>& slot) const;
};
Active active_of(const ParameterGroup& group);

/// Zeros like each parameter, in its memory format.
std::vector<at::Tensor> zeros_like(const ParameterGroup& group);

/// On a CPU, each tensor as its elements lie in memory, [numel]: of another layout, LibTorch's fused operators copy the
/// gradient, to no end. Tensors of one layout are still updated element by element.
std::vector<at::Tensor> in_memory(std::vector<at::Tensor> tensors);

/// What a slot that begins anew takes, when the weights have been loaded: its own values, or its parameter's.
enum class FirstValues { own, of_parameter };

/// Shows a list with one tensor for each parameter as "<slot>.<parameter>".
void visit_slot(runtime::State& state, const std::string& slot, const ParameterGroup& group,
                std::vector<at::Tensor>& tensors, FirstValues first_values = FirstValues::own);

/// Reads the flag; false where it is undefined. Synchronises with a GPU, which rules without a fused operator can't
/// avoid.
bool overflowed(const at::Tensor& found_inf);

/// Returns the flag on the device of the active parameters; undefined if it is.
at::Tensor beside(const Active& active, const at::Tensor& flag);

/// Returns a group's learning rate as LibTorch's fused operators read it from a device: float [], beside the
/// parameters. `lr`: double [].
at::Tensor fused_lr(const at::Tensor& lr, const ParameterGroup& group);

/// Updates that each parameter has had, as the fused operators want them: float scalars on the parameters' device.
class StepCounts {
 public:
  explicit StepCounts(const ParameterGroup& group);
  /// Counts one more update of the active parameters, unless `found_inf` says that it will be skipped.
  void advance(const Active& active, const at::Tensor& found_inf);
  const std::vector<at::Tensor>& tensors() const { return views_; }
  void visit_state(runtime::State& state, const ParameterGroup& group);

 private:
  at::Tensor counts_;              // float [parameters]
  std::vector<at::Tensor> views_;  // float [] each, into counts_
};

/// Updates that each parameter has had, for rules whose overflow the host knows of.
class HostStepCounts {
 public:
  explicit HostStepCounts(const ParameterGroup& group) : counts_(group.parameters.size(), 0) {}
  void advance(const Active& active) {
    for (const std::size_t index : active.indices) ++counts_[index];
  }
  double operator[](std::size_t index) const { return static_cast<double>(counts_[index]); }
  void visit_state(runtime::State& state, const ParameterGroup& group);

 private:
  std::vector<std::int64_t> counts_;
};

/// A run of parameters whose update is issued at once.
struct Batch {
  std::size_t first = 0;
  std::size_t count = 0;
  at::TensorList of(const std::vector<at::Tensor>& list) const { return at::TensorList(list).slice(first, count); }
};
/// Returns one batch on a GPU, because foreach operators save launches there. Returns one batch per parameter on a CPU,
/// because foreach operators save nothing there and hold temporaries of the whole model.
std::vector<Batch> batches_of(const Active& active);

using ParameterGroups = std::vector<ParameterGroup>;
std::unique_ptr<Optimizer> build(const SgdConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const AdamConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const AdamWConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const RmspropConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const LionConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const ScheduleFreeConfig& config, ParameterGroups groups);
/// `whole`: see build() of a whole config.
std::unique_ptr<Optimizer> build(const MuonConfig& config, ParameterGroups groups, WholeGradients* whole);
std::unique_ptr<Optimizer> build(const SoapConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const LambConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const AdafactorConfig& config, ParameterGroups groups);
std::unique_ptr<Optimizer> build(const PluggedRuleConfig& config, ParameterGroups groups);

}  // namespace trainctl::optimizer

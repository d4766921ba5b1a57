// What is the same wherever a rank holds the whole model.
#pragma once

#include <vector>

#include "distributed/distributed.h"

namespace trainctl {

class Replica : public Parallel {
 public:
  Replica(Group& group, Model& model);
  Group& group() final { return group_; }
  const std::vector<OptimizedParameter>& optimized() const final { return parameters_; }
  c10::Device update_device() const final {
    return parameters_.empty() ? c10::Device(c10::kCPU) : parameters_.front().tensor.device();
  }
  std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) final {
    return trainctl::build(config, parameters_);
  }
  void after_update() final {}
  void sum_over_parts(at::Tensor&) final {}
  void max_over_parts(at::Tensor&) final {}
  void visit_state(State& state, Optimizer& optimizer) override;
  void visit_averages(State& state, Ema& ema) final { ema.visit_state(state); }

 private:
  Group& group_;
  Model& model_;
  std::vector<OptimizedParameter> parameters_;
};

/// Those that require a gradient.
std::vector<OptimizedParameter> trained_parameters(Model& model);

/// Buffers of `model`, made the same on every rank.
void share_buffers(Group& group, BufferPolicy policy, Model& model);
/// Through which BatchNorm sees the batch of all ranks. `has_samples` outlives the model's use.
BatchRanks batch_ranks(Group& group, const bool& has_samples);

}  // namespace trainctl

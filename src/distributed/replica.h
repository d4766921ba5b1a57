// What is the same wherever a rank holds the whole model.
#pragma once

#include <vector>

#include "distributed/distributed.h"

namespace trainctl::distributed {

class Replica : public Parallel {
 public:
  explicit Replica(model::Model& model);
  const std::vector<optimizer::OptimizedParameter>& optimized() const final { return parameters_; }
  c10::Device update_device() const final { return device_; }
  std::unique_ptr<optimizer::Optimizer> make_optimizer(const optimizer::OptimizerConfig& config) final {
    return trainctl::optimizer::build(config, parameters_);
  }
  void after_update() final {}
  void with_whole(const at::Tensor&, const std::function<void()>& use) final { use(); }
  void sum_over_parts(at::Tensor&) final {}
  void max_over_parts(at::Tensor&) final {}
  void visit_state(runtime::State& state, optimizer::Optimizer& optimizer) override;
  void visit_averages(runtime::State& state, optimizer::Ema& ema) final { ema.visit_state(state); }

 private:
  model::Model& model_;
  std::vector<optimizer::OptimizedParameter> parameters_;
  c10::Device device_ = c10::kCPU;  // of the weights, which may all be frozen
};

/// Returns the parameters that require a gradient.
std::vector<optimizer::OptimizedParameter> trained_parameters(model::Model& model);

/// Buffers of `model`, made the same on every rank.
void share_buffers(comm::Group& group, SyncBuffers policy, model::Model& model);
/// Through which BatchNorm sees the batch of all ranks. `has_samples` outlives the model's use.
model::BatchRanks batch_ranks(comm::Group& group, const bool& has_samples);

}  // namespace trainctl::distributed

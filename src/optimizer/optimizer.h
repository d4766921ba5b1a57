// Update rules over parameter groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimizer/config.h"
#include "runtime/state.h"

namespace trainctl::optimizer {

/// A parameter, or a stretch of one.
struct OptimizedParameter {
  std::string name;
  at::Tensor tensor;                     // requires grad, materialised
  std::int64_t num_dims = tensor.dim();  // of the whole parameter
  bool is_copy = false;                  // another of the ranks whose gradients make one norm has it too
  std::int64_t blocks_after = 0;         // between the parameter's block and the model's output; for layer_decay
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update at this learning rate, from the parameters' .grad (undefined grads are left alone). Where `found_inf`
  /// is defined and not zero, nothing changes; fused rules decide that on the device.
  virtual void step(double lr, const at::Tensor& found_inf) = 0;
  /// Slots under "<slot>.<parameter name>", allocated at build.
  virtual void visit_state(runtime::State& state) = 0;
};

/// Parameters must be fp32 or fp64 and dense in memory: updates to 16-bit weights vanish in rounding.
std::unique_ptr<Optimizer> build(const OptimizerConfig& config, std::vector<OptimizedParameter> parameters);

/// Throws Error for an entry of param_groups that fits none of these names.
void check_parameter_groups(const OptimizerConfig& config, const std::vector<std::string>& names);

/// Returns the gradients that are defined.
std::vector<at::Tensor> gradients_of(const std::vector<OptimizedParameter>& parameters);

/// Frees the gradients (the next backward writes instead of adding).
void zero_grad(const std::vector<OptimizedParameter>& parameters);

/// Adds up over ranks, in place, where each has only a part of the gradients: each gradient is on one that has no copy.
using SumOverParts = std::function<void(at::Tensor& sum)>;

/// Scales all gradients by min(1, max_norm / norm), where norm is their global L2 norm; returns norm, on the device.
/// Same as torch.nn.utils.clip_grad_norm_, without a synchronisation. A null max_norm only measures.
at::Tensor clip_grad_norm(const std::vector<OptimizedParameter>& parameters, std::optional<double> max_norm,
                          const SumOverParts& sum_over_parts = {});

/// Exponential moving average of parameters. Buffers are not averaged: the model's own serve both.
class Ema {
 public:
  Ema(const EmaConfig& config, std::vector<OptimizedParameter> parameters);
  /// After update number `step` (0-based). The first averaged step copies the weights; until then the average is the
  /// weights.
  void update(std::int64_t step);
  /// Exchanges the values of averaged and current weights; call again to exchange back. In between, neither update nor
  /// visit_state may be called.
  void swap();
  void visit_state(runtime::State& state);

 private:
  void copy_weights();
  void lerp_weights();

  EmaConfig config_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> averages_;
  std::int64_t num_averaged_ = 0;
  bool swapped_ = false;
};

}  // namespace trainctl::optimizer

// Update rules over parameter groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "optimizer/config.h"
#include "runtime/state.h"

namespace trainctl::optimizer {

/// A parameter, or a stretch of one.
struct OptimizedParameter {
  std::string name;
  at::Tensor tensor;                         // requires grad, materialised
  std::int64_t num_dims = tensor.dim();      // of the whole parameter
  bool is_copy = false;                      // another of the ranks whose gradients make one norm has it too
  std::int64_t blocks_after = 0;             // between the parameter's block and the model's output; for layer_decay
  double lr_scale = 1;                       // of the learning rate, with as much more decay: muP
  bool is_hidden_matrix = tensor.dim() > 1;  // of the whole parameter: neither a vector, an embedding nor the output's
};

/// A moving average that follows an update: average += share · (parameter - average).
struct FollowingAverages {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> averages;
  double share = 0;
};

/// What a rule may do while it has gradients and parameters in hand, so that they are read once.
struct OnTheWay {
  at::Tensor factor;                            // floating-point [], on the device: of all gradients; undefined: 1
  const FollowingAverages* averages = nullptr;  // null: none
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update at this learning rate, from the parameters' .grad (undefined grads are left alone). Where `found_inf`
  /// is defined and not zero, nothing changes; fused rules decide that on the device.
  virtual void step(double lr, const at::Tensor& found_inf) = 0;
  /// Whether the rule has step_on_the_way().
  virtual bool works_on_the_way() const { return false; }
  /// step() with the gradients times a factor, which may leave them as they are, and with averages that follow, also
  /// where nothing else changes.
  virtual void step_on_the_way(double, const at::Tensor&, const OnTheWay&) {
    throw std::logic_error("the update rule does nothing on its way");
  }
  /// Whether updates can take their learning rate from the device, as a step that is recorded must.
  virtual bool reads_device_lr() const { return false; }
  /// From now on an update takes this double [], at the time it runs on the device, for the number that it is given.
  virtual void read_lr_from(const at::Tensor&) { throw std::logic_error("the update rule reads no learning rate"); }
  /// Slots under "<slot>.<parameter name>", allocated at build.
  virtual void visit_state(runtime::State& state) = 0;
  /// Puts the weights to evaluate and to save in the place of those that are trained. Returns whether this changes
  /// anything: only for rules that average, and not if they are in place. In between, step() may not be called, and
  /// visit_state() shows the trained weights too.
  virtual bool eval() { return false; }
  /// Puts the trained weights back, bit for bit.
  virtual void train() {}
};

/// A scope in which the weights to evaluate are in the model's place.
class AveragedWeights {
 public:
  explicit AveragedWeights(Optimizer& optimizer) : optimizer_(optimizer), changed_(optimizer.eval()) {}
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;
  ~AveragedWeights() {
    if (changed_) optimizer_.train();
  }

 private:
  Optimizer& optimizer_;
  bool changed_;
};

/// The gradients of whole parameters, where each rank has stretches of them.
class WholeGradients {
 public:
  virtual ~WholeGradients() = default;
  /// Where whole gradients are changed.
  virtual c10::Device device() const = 0;
  /// Calls `change` with each parameter that updates_whole() names and that this rank has a stretch of: its whole
  /// gradient, in `dtype` (none: its own). This rank's stretch of the result is its gradient then. Called by all ranks.
  virtual void change(std::optional<at::ScalarType> dtype,
                      const std::function<void(const std::string& name, at::Tensor& whole)>& change) = 0;
};

/// Parameters must be fp32 or fp64 and dense in memory: updates to 16-bit weights vanish in rounding.
/// `whole`: of stretches, for rules that update whole parameters; null: the parameters are whole.
std::unique_ptr<Optimizer> build(const OptimizerConfig& config, std::vector<OptimizedParameter> parameters,
                                 WholeGradients* whole = nullptr);

/// Returns whether the rule updates the parameter as a whole, so that a rank with a stretch of it needs the others'.
bool updates_whole(const OptimizerConfig& config, const std::string& name, bool is_hidden_matrix);

struct TrainedParameter {
  std::string name;
  std::int64_t num_dims = 0;
};
/// Throws Error for an entry of param_groups that has no effect on these, the model's trained parameters.
void check_parameter_groups(const OptimizerConfig& config, const std::vector<TrainedParameter>& parameters);

/// Returns the gradients that are defined.
std::vector<at::Tensor> gradients_of(const std::vector<OptimizedParameter>& parameters);

/// Frees the gradients (the next backward writes instead of adding).
void zero_grad(const std::vector<OptimizedParameter>& parameters);

/// Multiplies them in place by a float [] or a number.
void scale(const std::vector<at::Tensor>& gradients, const at::Tensor& factor);

/// Adds up over ranks, in place, where each has only a part of the gradients: each gradient is on one that has no copy.
using SumOverParts = std::function<void(at::Tensor& sum)>;

/// Returns the global L2 norm of all gradients, on the device.
at::Tensor grad_norm(const std::vector<OptimizedParameter>& parameters, const SumOverParts& sum_over_parts = {});

/// Returns min(1, max_norm / norm), beside the norm: torch.nn.utils.clip_grad_norm_'s factor.
at::Tensor clip_factor(const at::Tensor& norm, double max_norm);

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
  /// Returns what an update of that number can do on its way; it is counted as done then. None: call update().
  std::optional<FollowingAverages> begin_update(std::int64_t step);
  /// Exchanges the values of averaged and current weights; call again to exchange back. In between, neither update nor
  /// visit_state may be called.
  void swap();
  void visit_state(runtime::State& state);

 private:
  bool is_due(std::int64_t step);
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

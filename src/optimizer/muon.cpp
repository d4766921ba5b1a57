#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/norm.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// Returns a matrix with the singular vectors of [R, C], and singular values near 1. The iteration is the quintic
/// Newton-Schulz of https://kellerjordan.github.io/posts/muon, and the operators are those of torch.optim.Muon.
at::Tensor orthogonalize(const at::Tensor& matrix, std::int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // of the largest slope at 0
  constexpr double kTiny = 1e-7;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = is_tall ? matrix.t() : matrix;
  x = x.div(x.norm().clamp_min_(kTiny));  // singular values of at most 1
  for (std::int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA);
  }
  return is_tall ? x.t() : x;
}

double shape_scale(AdjustLr adjust, double rows, double columns) {
  switch (adjust) {
    case AdjustLr::original:
      return std::sqrt(std::max(1.0, rows / columns));
    case AdjustLr::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
  }
  throw std::logic_error("unknown adjust_lr");
}

/// The rule of Muon as torch.optim.Muon has it, for hidden matrices, and AdamW for the other parameters, as
/// MuonWithAuxAdam of https://github.com/KellerJordan/Muon. Filters of convolutions are matrices with a row for each
/// output channel.
class Muon final : public Optimizer {
 public:
  Muon(const MuonConfig& config, ParameterGroups groups, WholeGradients* whole) : config_(config), whole_(whole) {
    ParameterGroups others;
    for (ParameterGroup& group : groups) (group.is_whole ? groups_ : others).push_back(std::move(group));
    for (const ParameterGroup& group : groups_) momenta_.push_back(zeros_like(group));
    adamw_ = build(AdamWConfig{.beta1 = config.adamw.beta1, .beta2 = config.adamw.beta2, .eps = config.adamw.eps},
                   std::move(others));
  }

  void step(double lr, const at::Tensor& found_inf) override {
    adamw_->step(lr, found_inf);
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    std::vector<Active> active;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      active.push_back(active_of(groups_[i]));
      look_along_momentum(active.back(), momenta_[i]);
    }
    orthogonalize_gradients(active);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const double rate = lr * groups_[i].lr_scale;
      for (std::size_t j = 0; j < active[i].indices.size(); ++j) {
        const at::Tensor& parameter = active[i].parameters[j];
        if (groups_[i].weight_decay != 0) parameter.mul_(1 - rate * groups_[i].weight_decay);
        parameter.add_(active[i].gradients[j], -rate * shape_scales_.at(groups_[i].names[active[i].indices[j]]));
      }
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) visit_slot(state, "momentum_buffer", groups_[i], momenta_[i]);
    adamw_->visit_state(state);
  }

 private:
  /// Updates the momenta, and writes into the gradients' place what becomes the update.
  void look_along_momentum(const Active& active, const std::vector<at::Tensor>& all) const {
    const std::vector<at::Tensor> momenta = active.pick(all);
    for (const Batch& batch : batches_of(active)) {
      at::_foreach_lerp_(batch.of(momenta), batch.of(active.gradients), 1 - config_.momentum);
      if (config_.nesterov)
        at::_foreach_lerp_(batch.of(active.gradients), batch.of(momenta), config_.momentum);
      else
        for (std::size_t i = batch.first; i < batch.first + batch.count; ++i) active.gradients[i].copy_(momenta[i]);
    }
  }

  /// In the place of whole gradients, also of those that this rank has stretches of.
  void orthogonalize_gradients(const std::vector<Active>& active) {
    if (whole_ != nullptr)
      return whole_->change(dtype_on(whole_->device()),
                            [&](const std::string& name, at::Tensor& whole) { change(name, whole); });
    for (std::size_t i = 0; i < groups_.size(); ++i)
      for (std::size_t j = 0; j < active[i].indices.size(); ++j) {
        at::Tensor whole = active[i].gradients[j];
        if (const auto dtype = dtype_on(whole.device())) whole = whole.to(*dtype);
        change(groups_[i].names[active[i].indices[j]], whole);
        active[i].gradients[j].copy_(whole);
      }
  }

  /// None: the parameters' own.
  std::optional<at::ScalarType> dtype_on(c10::Device device) const {
    const NewtonSchulzDtype dtype =
        config_.ns_dtype.value.value_or(device.is_cpu() ? NewtonSchulzDtype::fp32 : NewtonSchulzDtype::bf16);
    return dtype == NewtonSchulzDtype::bf16 ? std::optional(at::kBFloat16) : std::nullopt;
  }

  void change(const std::string& name, at::Tensor& whole) {
    const at::Tensor matrix = whole.flatten(1);
    shape_scales_[name] =
        shape_scale(config_.adjust_lr, static_cast<double>(matrix.size(0)), static_cast<double>(matrix.size(1)));
    whole = orthogonalize(matrix, config_.ns_steps).reshape(whole.sizes());
  }

  MuonConfig config_;
  ParameterGroups groups_;  // of matrices
  WholeGradients* whole_;
  std::vector<std::vector<at::Tensor>> momenta_;  // one list for each group
  std::map<std::string, double> shape_scales_;    // of learning rates
  std::unique_ptr<Optimizer> adamw_;
};

}  // namespace

std::unique_ptr<Optimizer> build(const MuonConfig& config, ParameterGroups groups, WholeGradients* whole) {
  return std::make_unique<Muon>(config, std::move(groups), whole);
}

}  // namespace trainctl::optimizer

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/linalg_eigh.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tensordot.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>

#include "core/error.h"
#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

/// One square matrix for each dim of a parameter; undefined for a dim that isn't rotated.
using DimMatrices = std::vector<at::Tensor>;

enum class Direction { into_basis, out_of_basis };

/// Returns the tensor with each dim multiplied by the basis of that dim.
at::Tensor rotated(at::Tensor tensor, const DimMatrices& bases, Direction direction) {
  const std::int64_t side = direction == Direction::into_basis ? 0 : 1;
  // Each product takes the first dim away and adds the new one behind the last.
  for (const at::Tensor& basis : bases)
    tensor = basis.defined() ? at::tensordot(tensor, basis, {0}, {side}) : tensor.movedim(0, -1);
  return tensor;
}

/// Returns the eigenvectors as columns, those of the largest eigenvalues first. A matrix of single precision that the
/// iteration can't solve is solved in double precision.
at::Tensor eigenvectors(const at::Tensor& matrix) {
  const auto last_first = at::arange(matrix.size(0) - 1, -1, -1, matrix.options().dtype(at::kLong));
  const auto solve = [&](const at::Tensor& one) {
    return std::get<1>(at::linalg_eigh(one)).index_select(1, last_first);
  };
  try {
    return solve(matrix);
  } catch (const c10::LinAlgError&) {
    if (matrix.scalar_type() == at::kDouble) throw;
    return solve(matrix.to(at::kDouble)).to(matrix.scalar_type());
  }
}

/// The rule of SOAP (https://arxiv.org/abs/2409.11321, algorithm 3): Adam in the eigenbases of Shampoo's
/// preconditioners. Details are those of https://github.com/nikhilvyas/SOAP. The first step takes the gradient into the
/// preconditioners, and changes no weight. Each dim of a filter has its own preconditioner. A basis changes by one step
/// of power iteration and QR.
class Soap final : public Optimizer {
 public:
  Soap(const SoapConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) {
      Slots slots{.calls = HostStepCounts(group), .average = zeros_like(group), .square = zeros_like(group)};
      for (const at::Tensor& parameter : group.parameters) {
        slots.covariances.push_back(zeros_for_dims(parameter));
        slots.bases.push_back(zeros_for_dims(parameter));
      }
      slots_.push_back(std::move(slots));
    }
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      slots_[i].calls.advance(active);
      for (std::size_t j = 0; j < active.indices.size(); ++j) {
        const std::size_t index = active.indices[j];
        if (slots_[i].calls[index] == 1)
          begin(active.gradients[j], slots_[i], index);
        else
          update(lr * groups_[i].lr_scale, groups_[i].weight_decay, active.parameters[j], active.gradients[j],
                 slots_[i], index);
      }
    }
  }

  void visit_state(runtime::State& state) override {
    // In other bases, the averages of gradients have another meaning.
    std::int64_t largest = 0;
    for (const auto& group : groups_)
      for (const at::Tensor& parameter : group.parameters)
        for (const std::int64_t size : parameter.sizes()) largest = std::max(largest, size);
    const std::string rotated = "dims up to " +
                                std::to_string(std::min<std::int64_t>(config_.max_precond_dim, largest)) +
                                (config_.precondition_1d ? ", of vectors too" : "");
    if (runtime::watched_another(state, rotated))
      throw core::Error("the checkpoint's averages of gradients are in other bases; this run rotates " + rotated);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Slots& slots = slots_[i];
      slots.calls.visit_state(state, groups_[i]);
      // Not exp_avg: rules that average gradients themselves would go on from these at a resume.
      visit_slot(state, "rotated_exp_avg", groups_[i], slots.average);
      visit_slot(state, "rotated_exp_avg_sq", groups_[i], slots.square);
      for (std::size_t j = 0; j < groups_[i].names.size(); ++j) {
        visit_dims(state, "preconditioner_", groups_[i].names[j], slots.covariances[j]);
        visit_dims(state, "eigenvectors_", groups_[i].names[j], slots.bases[j]);
      }
    }
  }

 private:
  /// State of a group, one entry for each parameter.
  struct Slots {
    HostStepCounts calls;             // one more than the updates: the first step changes no weight
    std::vector<at::Tensor> average;  // of gradients in the eigenbasis
    std::vector<at::Tensor> square;   // of their squares
    std::vector<DimMatrices> covariances;
    std::vector<DimMatrices> bases;  // eigenvectors as columns
  };

  DimMatrices zeros_for_dims(const at::Tensor& parameter) const {
    DimMatrices matrices;
    const bool is_rotated = parameter.dim() > 1 || config_.precondition_1d;
    for (const std::int64_t size : parameter.sizes())
      matrices.push_back(is_rotated && size <= config_.max_precond_dim
                             ? at::zeros({size, size}, parameter.options().requires_grad(false))
                             : at::Tensor());
    return matrices;
  }

  static void visit_dims(runtime::State& state, const std::string& slot, const std::string& name,
                         DimMatrices& matrices) {
    for (std::size_t dim = 0; dim < matrices.size(); ++dim)
      if (matrices[dim].defined()) state.slot({slot + std::to_string(dim), name}, matrices[dim]);
  }

  /// Moves each dim's preconditioner towards the outer products of the gradient along that dim.
  void take_into_covariances(const at::Tensor& gradient, const DimMatrices& covariances) const {
    const double share = 1 - config_.shampoo_beta.value_or(config_.beta2);
    for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) {
      const at::Tensor& covariance = covariances[static_cast<std::size_t>(dim)];
      if (!covariance.defined()) continue;
      std::vector<std::int64_t> others;
      for (std::int64_t other = 0; other < gradient.dim(); ++other)
        if (other != dim) others.push_back(other);
      covariance.lerp_(at::tensordot(gradient, gradient, others, others), share);
    }
  }

  void begin(const at::Tensor& gradient, const Slots& slots, std::size_t index) const {
    take_into_covariances(gradient, slots.covariances[index]);
    for (std::size_t dim = 0; dim < slots.bases[index].size(); ++dim)
      if (const at::Tensor& basis = slots.bases[index][dim]; basis.defined())
        basis.copy_(eigenvectors(slots.covariances[index][dim]));
  }

  void update(double lr, double weight_decay, const at::Tensor& parameter, const at::Tensor& gradient,
              const Slots& slots, std::size_t index) const {
    const DimMatrices& bases = slots.bases[index];
    const at::Tensor& average = slots.average[index];
    const at::Tensor& square = slots.square[index];
    const at::Tensor projected = rotated(gradient, bases, Direction::into_basis);
    average.mul_(config_.beta1).add_(projected, 1 - config_.beta1);
    square.mul_(config_.beta2).add_(projected.square(), 1 - config_.beta2);
    const double step = slots.calls[index] - 1;
    const double corrected = lr * std::sqrt(1 - std::pow(config_.beta2, step)) / (1 - std::pow(config_.beta1, step));
    const at::Tensor change = rotated(average.div(square.sqrt().add_(config_.eps)), bases, Direction::out_of_basis);
    parameter.add_(change, -corrected);
    if (weight_decay != 0) parameter.add_(parameter, -lr * weight_decay);

    // After the update, so that the gradient doesn't decide the basis in which it is used.
    take_into_covariances(gradient, slots.covariances[index]);
    const auto updates = static_cast<std::int64_t>(step);
    if (updates % config_.precondition_frequency == 0) turn_bases(slots, index);
  }

  /// Brings each basis nearer to the eigenvectors of its preconditioner, in the order of the eigenvalues.
  static void turn_bases(const Slots& slots, std::size_t index) {
    const at::Tensor& average = slots.average[index];
    const at::Tensor& square = slots.square[index];
    const at::Tensor unrotated = rotated(average, slots.bases[index], Direction::out_of_basis);
    for (std::size_t dim = 0; dim < slots.bases[index].size(); ++dim) {
      const at::Tensor& basis = slots.bases[index][dim];
      if (!basis.defined()) continue;
      const at::Tensor& covariance = slots.covariances[index][dim];
      const at::Tensor eigenvalues = basis.t().mm(covariance).mm(basis).diagonal();
      const at::Tensor order = eigenvalues.argsort(/*dim=*/0, /*descending=*/true);
      square.copy_(square.index_select(static_cast<std::int64_t>(dim), order));
      basis.copy_(std::get<0>(at::linalg_qr(covariance.mm(basis.index_select(1, order)))));
    }
    average.copy_(rotated(unrotated, slots.bases[index], Direction::into_basis));
  }

  SoapConfig config_;
  ParameterGroups groups_;
  std::vector<Slots> slots_;  // one for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const SoapConfig& config, ParameterGroups groups) {
  return std::make_unique<Soap>(config, std::move(groups));
}

}  // namespace trainctl::optimizer

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimizer/rule.h"

namespace trainctl::optimizer {
namespace {

double root_of_numel(const at::Tensor& tensor) {
  return std::sqrt(static_cast<double>(tensor.numel()));
}

/// Returns the mean of squares along one dim, which is kept, without a temporary of the tensor's size. On the CPU
/// LibTorch takes 100 ns per row of a 3×3 filter to reduce it. Adding slices across the rows is many times as fast.
at::Tensor mean_square(const at::Tensor& tensor, std::int64_t dim) {
  constexpr std::int64_t kFewSlices = 16;
  const std::int64_t size = tensor.size(dim);
  if (!tensor.is_cpu() || size > kFewSlices || tensor.numel() == 0)
    return at::linalg_vector_norm(tensor, 2, dim, /*keepdim=*/true).square_().div_(size);
  at::Tensor sum = tensor.narrow(dim, 0, 1).square();
  for (std::int64_t i = 1; i < size; ++i) {
    const at::Tensor slice = tensor.narrow(dim, i, 1);
    sum.addcmul_(slice, slice);
  }
  return sum.div_(size);
}

/// The rule of torch.optim.Adafactor 2.11. All norms stay on the device.
class Adafactor final : public Optimizer {
 public:
  Adafactor(const AdafactorConfig& config, ParameterGroups groups) : config_(config), groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) {
      Slots slots{.row = {}, .column = {}, .variance = {}, .steps = HostStepCounts(group)};
      for (const at::Tensor& parameter : group.parameters) allocate(parameter, slots);
      slots_.push_back(std::move(slots));
    }
  }

  void step(double lr, const at::Tensor& found_inf) override {
    if (overflowed(found_inf)) return;
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Active active = active_of(groups_[i]);
      slots_[i].steps.advance(active);
      for (std::size_t j = 0; j < active.indices.size(); ++j)
        update(lr * groups_[i].lr_scale, groups_[i].weight_decay, active.parameters[j], active.gradients[j], slots_[i],
               active.indices[j]);
    }
  }

  void visit_state(runtime::State& state) override {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Slots& slots = slots_[i];
      for (std::size_t j = 0; j < groups_[i].names.size(); ++j) {
        const std::string& name = groups_[i].names[j];
        if (slots.row[j].defined()) state.slot({"row_var", name}, slots.row[j]);
        if (slots.column[j].defined()) state.slot({"col_var", name}, slots.column[j]);
        if (slots.variance[j].defined()) state.slot({"variance", name}, slots.variance[j]);
      }
      slots.steps.visit_state(state, groups_[i]);
    }
  }

 private:
  /// The factors of matrices, or the variance itself of vectors; the other is undefined.
  struct Slots {
    std::vector<at::Tensor> row;     // [..., R, 1]
    std::vector<at::Tensor> column;  // [..., 1, C]
    std::vector<at::Tensor> variance;
    HostStepCounts steps;
  };

  static void allocate(const at::Tensor& parameter, Slots& slots) {
    const bool factored = parameter.dim() > 1;
    std::vector<std::int64_t> row = parameter.sizes().vec(), column = row;
    if (factored) row[row.size() - 1] = column[column.size() - 2] = 1;
    const at::TensorOptions options = parameter.options().requires_grad(false);
    slots.row.push_back(factored ? at::zeros(row, options) : at::Tensor());
    slots.column.push_back(factored ? at::zeros(column, options) : at::Tensor());
    slots.variance.push_back(factored ? at::Tensor() : at::zeros_like(parameter));
  }

  void update(double lr, double weight_decay, const at::Tensor& parameter, const at::Tensor& gradient,
              const Slots& slots, std::size_t index) const {
    const double step = slots.steps[index];
    const double share = std::pow(step, config_.beta2_decay);  // 1 - beta2
    const double epsilon = parameter.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                                  : std::numeric_limits<float>::epsilon();
    const double eps1 = config_.eps1.value_or(epsilon);
    const at::Tensor rate = at::linalg_vector_norm(parameter)
                                .div_(root_of_numel(parameter))
                                .clamp_min_(config_.eps2)
                                .mul_(std::min(lr, 1 / std::sqrt(step)));
    if (weight_decay != 0) parameter.mul_(1 - lr * weight_decay);

    at::Tensor variance;
    if (slots.row[index].defined()) {
      slots.row[index].lerp_(mean_square(gradient, -1), share);
      slots.column[index].lerp_(mean_square(gradient, -2), share);
      // The outer product by broadcasting: the batched matrix product of PyTorch's version takes many times as long on
      // 3x3 filters.
      variance =
          slots.row[index].mul(slots.column[index]).div_(slots.row[index].mean(-2, /*keepdim=*/true).clamp_min_(eps1));
    } else {
      slots.variance[index].lerp_(gradient.square(), share);
      variance = slots.variance[index].clone();
    }
    // The square root of eps1's square has eps1's magnitude.
    const at::Tensor change = variance.clamp_min_(eps1 * eps1).rsqrt_().mul_(gradient);
    const at::Tensor ceiling =
        at::linalg_vector_norm(change).div_(root_of_numel(change) * config_.clip_threshold).clamp_min_(1);
    parameter.sub_(change.mul_(rate.div_(ceiling)));
  }

  AdafactorConfig config_;
  ParameterGroups groups_;
  std::vector<Slots> slots_;  // one for each group
};

}  // namespace

std::unique_ptr<Optimizer> build(const AdafactorConfig& config, ParameterGroups groups) {
  return std::make_unique<Adafactor>(config, std::move(groups));
}

}  // namespace trainctl::optimizer

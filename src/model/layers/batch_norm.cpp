#include "model/layers/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <optional>

#include "core/error.h"
#include "model/layers/activation.h"
#include "model/layers/sync_batch_norm.h"
#include "runtime/recomputation.h"

namespace trainctl::model {

BatchNorm::BatchNorm(const BatchNormSpec& spec)
    : eps_(spec.eps),
      momentum_(spec.momentum),
      weight_(parameter("weight", {spec.channels}, Init::constant(spec.weight))),
      bias_(parameter("bias", {spec.channels}, Init::constant(0))),
      running_mean_(buffer("running_mean", {spec.channels}, at::kFloat, 0)),
      running_var_(buffer("running_var", {spec.channels}, at::kFloat, 1)),
      num_batches_tracked_(buffer("num_batches_tracked", {}, at::kLong, 0)) {}

at::Tensor BatchNorm::compute(const at::Tensor& input) {
  const bool cudnn = at::globalContext().userEnabledCuDNN();
  if (!is_training())
    return at::batch_norm(input, weight_, bias_, running_mean_, running_var_, /*training=*/false, momentum_, eps_,
                          cudnn);

  if (ranks_) return forward_over_ranks(input);
  if (suits_kernel(input)) return forward_by_kernel(input, {});
  const std::int64_t count = input.numel() / input.size(1);
  if (count < 2)
    throw core::Error("BatchNorm can't train on one value per channel (input " + std::to_string(input.size(0)) + "×" +
                      std::to_string(input.size(1)) + "×1×1)")
        .hint("a larger dataset.batch_size (with drop_last: true), or larger images");
  if (runtime::Recomputation::is_running())
    // Clones, so that autograd saves as many tensors as in the first pass.
    return at::batch_norm(input, weight_, bias_, running_mean_.clone(), running_var_.clone(), /*training=*/true,
                          momentum_, eps_, cudnn);
  if (when_ == RunningStatistics::every_forward) {
    num_batches_tracked_.add_(1);
    return at::batch_norm(input, weight_, bias_, running_mean_, running_var_, /*training=*/true, momentum_, eps_,
                          cudnn);
  }
  // With momentum 1, the running statistics are those of this batch.
  at::Tensor mean = at::empty_like(running_mean_).zero_();
  at::Tensor variance = at::empty_like(running_var_).zero_();
  at::Tensor output =
      at::batch_norm(input, weight_, bias_, mean, variance, /*training=*/true, /*momentum=*/1, eps_, cudnn);
  gather(mean, variance, count);
  return output;
}

at::Tensor BatchNorm::forward_relu(const at::Tensor& input, const at::Tensor& residual) {
  const bool is_alone = stand_in() == nullptr && !is_placed() && !ranks_;
  if (is_training() && is_alone && suits_kernel(input)) {
    const LayerSpan span(*this);
    return forward_by_kernel(input, {.add = residual.defined() ? std::optional(residual) : std::nullopt, .relu = true});
  }
  at::Tensor value = forward(input);
  if (residual.defined()) value.add_(residual);
  return relu_in_place(value);
}

bool BatchNorm::suits_kernel(const at::Tensor& input) const {
  return input.numel() > input.size(1) && kernels::suits_batch_norm(input, weight_);
}

at::Tensor BatchNorm::forward_by_kernel(const at::Tensor& input, const kernels::AfterNorm& after) {
  const kernels::BatchNormResult result = kernels::batch_norm(input, weight_, bias_, eps_, after);
  update(result.mean, result.variance, input.numel() / input.size(1));
  return result.output;
}

at::Tensor BatchNorm::forward_over_ranks(const at::Tensor& input) {
  const SyncBatchNormResult result = sync_batch_norm(input, weight_, bias_, eps_, *ranks_);
  update(result.mean, result.variance, result.count);
  return result.output;
}

/// Unless this is a recomputation. `variance` is unbiased.
void BatchNorm::update(const at::Tensor& mean, const at::Tensor& variance, std::int64_t count) {
  if (runtime::Recomputation::is_running()) return;
  if (when_ == RunningStatistics::on_commit) return gather(mean, variance, count);
  const c10::NoGradGuard no_grad;
  num_batches_tracked_.add_(1);
  running_mean_.lerp_(mean.to(running_mean_.scalar_type()), momentum_);
  running_var_.lerp_(variance.to(running_var_.scalar_type()), momentum_);
}

void BatchNorm::set_running_statistics(RunningStatistics when) {
  when_ = when;
  pooled_ = {};
}

/// Pools means and squared differences pairwise: https://doi.org/10.1080/00031305.1983.10483115 (Chan, Golub, LeVeque).
void BatchNorm::gather(const at::Tensor& mean, const at::Tensor& variance, std::int64_t count) {
  const c10::NoGradGuard no_grad;
  const at::Tensor squares = variance.to(at::kDouble).mul_(static_cast<double>(count - 1));
  if (pooled_.count == 0) {
    pooled_ = {.mean = mean.to(at::kDouble), .squares = squares, .count = count};
    return;
  }
  const auto before = static_cast<double>(pooled_.count);
  const auto added = static_cast<double>(count);
  const at::Tensor difference = mean.to(at::kDouble).sub_(pooled_.mean);
  pooled_.mean.add_(difference, added / (before + added));
  pooled_.squares.add_(squares).add_(difference.square_(), before * added / (before + added));
  pooled_.count += count;
}

void BatchNorm::commit(std::int64_t updates) {
  if (pooled_.count == 0) return;
  const c10::NoGradGuard no_grad;
  const at::Tensor variance = pooled_.squares.div(static_cast<double>(pooled_.count - 1));
  const double momentum = updates == 1 ? momentum_ : 1 - std::pow(1 - momentum_, static_cast<double>(updates));
  running_mean_.lerp_(pooled_.mean.to(running_mean_.scalar_type()), momentum);
  running_var_.lerp_(variance.to(running_var_.scalar_type()), momentum);
  num_batches_tracked_.add_(updates);
  pooled_ = {};
}

}  // namespace trainctl::model

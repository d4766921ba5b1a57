#include "model/layers/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.h"
#include "model/layers/activation.h"
#include "model/model.h"
#include "runtime/recomputation.h"
#include "runtime/span.h"

namespace trainctl::model {
namespace {

/// What batch normalization by the batch of all ranks gives.
struct SyncBatchNormResult {
  at::Tensor output;
  at::Tensor mean;         // [C], over all ranks
  at::Tensor variance;     // [C], unbiased
  std::int64_t count = 0;  // values per channel, on all ranks
};

constexpr const char* kExchangeSpan = "synchronize_batch_norm";

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Statistics {
  at::Tensor mean;      // [C]
  at::Tensor variance;  // [C], biased
  double count = 0;
};

std::vector<std::int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim) dims.push_back(dim);
  return dims;
}

at::Tensor gathered(const at::Tensor& mine, const BatchRanks& ranks) {
  const runtime::Span span(kExchangeSpan);
  return ranks.gather(mine);
}

/// Pools statistics pairwise: https://doi.org/10.1080/00031305.1983.10483115 (Chan, Golub, LeVeque).
Statistics over_ranks(const at::Tensor& input, const BatchRanks& ranks) {
  const std::int64_t channels = input.size(1);
  const bool is_double = input.scalar_type() == at::kDouble;
  const auto [variance, mean] =
      at::var_mean(is_double ? input : input.to(at::kFloat), all_but_channels(input), /*correction=*/0);
  const double count = ranks.has_samples() ? static_cast<double>(input.numel() / channels) : 0;
  const at::Tensor mine = at::cat(
      {mean.to(at::kDouble), variance.to(at::kDouble), at::full({1}, count, mean.options().dtype(at::kDouble))});
  const at::Tensor all = gathered(mine, ranks);              // [ranks, 2 C + 1]
  const at::Tensor counts = all.narrow(1, 2 * channels, 1);  // [ranks, 1]
  const at::Tensor total = counts.sum();                     // []
  const at::Tensor share = counts.div(total);                // [ranks, 1]
  const at::Tensor means = all.narrow(1, 0, channels);       // [ranks, C]
  const at::Tensor pooled = means.mul(share).sum(0);         // [C]
  const at::Tensor inside = all.narrow(1, channels, channels).mul(share).sum(0);
  const at::Tensor between = means.sub(pooled).square_().mul_(share).sum(0);
  return {.mean = pooled.to(mean.scalar_type()),
          .variance = inside.add(between).to(mean.scalar_type()),
          .count = total.item<double>()};
}

struct SyncBatchNorm final : torch::autograd::Function<SyncBatchNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, const Statistics& statistics, double eps, const BatchRanks& ranks) {
    context->save_for_backward({input, weight, statistics.mean, statistics.variance});
    context->saved_data["eps"] = eps;
    context->saved_data["count"] = statistics.count;
    context->saved_data["counts"] = ranks.has_samples();
    context->saved_data["sum"] = c10::IValue::make_capsule(c10::make_intrusive<Sum>(ranks.sum));
    return std::get<0>(at::native_batch_norm(input, weight, bias, statistics.mean, statistics.variance,
                                             /*training=*/false, /*momentum=*/0, eps));
  }

  static variable_list backward(AutogradContext* context, const variable_list& output_gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& output_gradient = output_gradients[0];
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& variance = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    const double count = context->saved_data["count"].toDouble();
    const auto [unused, weight_gradient, bias_gradient] =
        at::native_batch_norm_backward(output_gradient, input, weight, mean, variance, /*save_mean=*/{},
                                       /*save_invstd=*/{}, /*train=*/false, eps, {false, true, true});
    at::Tensor sums = at::cat({weight_gradient, bias_gradient}).to(at::kDouble);  // [2 C]
    {
      const runtime::Span span(kExchangeSpan);
      static_cast<const Sum&>(*context->saved_data["sum"].toCapsule()).sum(sums);
    }
    const std::int64_t channels = input.size(1);
    std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
    shape[1] = channels;
    const auto by_channel = [&](const at::Tensor& values) { return values.to(mean.scalar_type()).view(shape); };
    const at::Tensor inverse = at::rsqrt(variance.to(at::kDouble).add(eps));
    const at::Tensor scale = weight.to(at::kDouble).mul(inverse);
    // The gradient with constant statistics is that of a placeholder, on which they don't depend.
    if (!context->saved_data["counts"].toBool())
      return {
          output_gradient.mul(by_channel(scale)).to(input.scalar_type()), weight_gradient, bias_gradient, {}, {}, {}};
    const at::Tensor share = scale.div(-count);
    const at::Tensor slope = share.mul(inverse).mul_(sums.narrow(0, 0, channels));
    const at::Tensor offset = share.mul(sums.narrow(0, channels, channels));
    // Sums of opposite terms: in float, of centred values, and rounded to the input's type once.
    const at::Tensor gradient = input.sub(by_channel(mean)).mul_(by_channel(slope)).add_(by_channel(offset));
    gradient.addcmul_(output_gradient, by_channel(scale));
    return {gradient.to(input.scalar_type()), weight_gradient, bias_gradient, {}, {}, {}};
  }

 private:
  /// Holder of the exchange function for an autograd context.
  struct Sum final : torch::CustomClassHolder {
    explicit Sum(std::function<void(at::Tensor&)> function) : sum(std::move(function)) {}
    std::function<void(at::Tensor&)> sum;
  };
};

/// input [B, C, ...], weight and bias [C]. As batch_norm of the ranks' inputs in one batch, forward and backward; the
/// gradients of weight and bias are this rank's share of the sum. Two exchanges of 2 C numbers, one each way.
SyncBatchNormResult sync_batch_norm(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                    double eps, const BatchRanks& ranks) {
  Statistics statistics;
  {
    const at::NoGradGuard no_grad;
    statistics = over_ranks(input, ranks);
  }
  if (statistics.count < 2)
    throw core::Error("BatchNorm can't train on one value per channel").hint("a larger dataset.batch_size");
  return {.output = SyncBatchNorm::apply(input, weight, bias, statistics, eps, ranks),
          .mean = statistics.mean,
          .variance = statistics.variance.mul(statistics.count / (statistics.count - 1)),
          .count = std::llround(statistics.count)};
}

}  // namespace

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

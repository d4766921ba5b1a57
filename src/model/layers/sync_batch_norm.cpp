#include "model/layers/sync_batch_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "runtime/span.h"

namespace trainctl::model {
namespace {

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
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& mean = saved[2];
    const at::Tensor& variance = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    const double count = context->saved_data["count"].toDouble();
    // Computes the gradient with constant statistics. The two sums give the part that comes through the statistics.
    auto [gradient, weight_gradient, bias_gradient] =
        at::native_batch_norm_backward(output_gradients[0], input, weight, mean, variance, /*save_mean=*/{},
                                       /*save_invstd=*/{}, /*train=*/false, eps, {true, true, true});
    at::Tensor sums = at::cat({weight_gradient, bias_gradient}).to(at::kDouble);  // [2 C]
    {
      const runtime::Span span(kExchangeSpan);
      static_cast<const Sum&>(*context->saved_data["sum"].toCapsule()).sum(sums);
    }
    // The statistics don't depend on a placeholder.
    if (!context->saved_data["counts"].toBool()) return {gradient, weight_gradient, bias_gradient, {}, {}, {}};
    const std::int64_t channels = input.size(1);
    const at::Tensor inverse = at::rsqrt(variance.to(at::kDouble).add(eps));
    const at::Tensor scale = weight.to(at::kDouble).mul(inverse).div_(-count);
    const at::Tensor slope = scale.mul(inverse).mul_(sums.narrow(0, 0, channels));
    const at::Tensor offset = scale.mul(sums.narrow(0, channels, channels)).sub_(slope.mul(mean));
    std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
    shape[1] = channels;
    gradient.addcmul_(input, slope.to(input.scalar_type()).view(shape));
    gradient.add_(offset.to(input.scalar_type()).view(shape));
    return {gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }

 private:
  /// Holder of the exchange function for an autograd context.
  struct Sum final : torch::CustomClassHolder {
    explicit Sum(std::function<void(at::Tensor&)> function) : sum(std::move(function)) {}
    std::function<void(at::Tensor&)> sum;
  };
};

}  // namespace

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

}  // namespace trainctl::model

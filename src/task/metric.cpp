#include "task/metric.h"

#include <ATen/ops/zeros.h>

#include <limits>

namespace trainctl::task {
namespace {

/// Logits [B, C, ...] with labels [B, ...]; a label below 0 doesn't count.
class BrierScore final : public ExtraMetric {
 public:
  void add(const dataset::Batch& batch, const at::Tensor& answers) override {
    const at::Tensor probabilities = answers.to(at::kDouble).softmax(1);
    const at::Tensor labels = batch.targets;
    const at::Tensor counts = labels.ge(0);
    const at::Tensor likelihood = probabilities.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
    // The label's own probability p adds (1 - p)² in place of p².
    const at::Tensor distance = probabilities.square().sum(1).sub(likelihood.mul(2)).add(1);
    const at::Tensor sum = distance.mul(counts).sum();
    sum_ = sum_.defined() ? sum_.add(sum) : sum;
    count_ = count_.defined() ? count_.add(counts.sum()) : counts.sum();
  }
  void pool(Pool& pool) override {
    if (!sum_.defined()) {
      sum_ = at::zeros({}, at::TensorOptions(at::kDouble).device(pool.device()));
      count_ = at::zeros({}, at::TensorOptions(at::kLong).device(pool.device()));
    }
    pool.sum(sum_);
    pool.sum(count_);
  }
  double value() override {
    const double count = count_.defined() ? static_cast<double>(count_.item<std::int64_t>()) : 0;
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum_.item<double>() / count;
  }

 private:
  at::Tensor sum_;    // [], double
  at::Tensor count_;  // [], int64: samples with a label
};

}  // namespace

std::unique_ptr<ExtraMetric> build(const BrierScoreConfig&) {
  return std::make_unique<BrierScore>();
}

std::unique_ptr<ExtraMetric> build(const PluggedMetricConfig& config) {
  return config.interface().build(config.config());
}

ExtraMetrics::ExtraMetrics(const std::vector<MetricConfig>& configs) {
  for (const MetricConfig& config : configs)
    metrics_.emplace_back(config.kind(), config.visit([](const auto& metric) { return build(metric); }));
}

void ExtraMetrics::add(const dataset::Batch& batch, const at::Tensor& answers) {
  for (const auto& [name, metric] : metrics_) metric->add(batch, answers);
}

void ExtraMetrics::pool(Pool& pool) {
  for (const auto& [name, metric] : metrics_) metric->pool(pool);
}

void ExtraMetrics::append_to(Metrics& metrics) {
  if (metrics.empty()) return;  // no sample has a target
  for (const auto& [name, metric] : metrics_) metrics.emplace_back(name, metric->value());
}

}  // namespace trainctl::task

// Metrics beside those of a task: of `metrics:` in the experiment.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "task/metric_config.h"
#include "task/pool.h"
#include "task/task.h"

namespace trainctl::task {

/// Sums over an evaluation set, kept on the device until asked for.
class ExtraMetric {
 public:
  virtual ~ExtraMetric() = default;
  /// `answers`: the model's for the batch, as Evaluation::on_answers has them.
  virtual void add(const dataset::Batch& batch, const at::Tensor& answers) = 0;
  /// Makes this the metric of what all ranks have added. Once, by all of them.
  virtual void pool(Pool& pool) = 0;
  /// Returns NaN without samples. Synchronises.
  virtual double value() = 0;
};

std::unique_ptr<ExtraMetric> build(const BrierScoreConfig& config);
std::unique_ptr<ExtraMetric> build(const PluggedMetricConfig& config);

/// The metrics of an experiment, with their names.
class ExtraMetrics {
 public:
  explicit ExtraMetrics(const std::vector<MetricConfig>& configs);
  bool empty() const { return metrics_.empty(); }
  void add(const dataset::Batch& batch, const at::Tensor& answers);
  void pool(Pool& pool);
  /// Appends them to those of the task.
  void append_to(Metrics& metrics);

 private:
  std::vector<std::pair<std::string, std::unique_ptr<ExtraMetric>>> metrics_;
};

}  // namespace trainctl::task

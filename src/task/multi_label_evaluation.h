// The metrics of a set whose samples have several labels: counts on the device, and each sample's scores for what ranks
// samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "task/class_counts.h"
#include "task/ranking.h"
#include "task/task.h"

namespace trainctl::task {

/// Runs the model. Returns the logits [B, C] of the labels; throws core::Error if the model has other outputs.
at::Tensor label_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes);

class MultiLabelEvaluation final : public Evaluation {
 public:
  struct Options {
    std::int64_t num_classes;
    std::vector<std::string> class_names;
    std::vector<MultiLabelMetric> metrics;
    double threshold;
  };
  MultiLabelEvaluation(model::Model& model, Options options) : model_(model), options_(std::move(options)) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The loss, without pos_weight, and the chosen metrics.
  Metrics metrics() override;
  /// Returns {"num_samples": N, "class_names": […], "per_class_average_precision": [… or null], "per_class_f1": [… or
  /// null], "samples_with_label": […]}; "" without samples. A class without samples has null.
  std::string details() override;

 private:
  void start(const at::Device& device);
  ClassCounts counts() const;
  std::vector<RankingMetrics> ranking() const;
  double value_of(MultiLabelMetric metric, const ClassCounts& classes, const std::vector<RankingMetrics>& ranks) const;

  model::Model& model_;
  Options options_;
  std::int64_t count_ = 0;
  at::Tensor loss_;               // [], double
  at::Tensor exact_;              // [], int64: samples with all labels right
  at::Tensor labeled_;            // [C], int64: samples with each label
  at::Tensor predicted_;          // [C], int64: samples that were given each label
  at::Tensor hits_;               // [C], int64: samples that have each label and were given it
  std::vector<at::Tensor> rows_;  // [B, 2 C] each, float: the labels, then their logits
};

}  // namespace trainctl::task

// The metrics and the confusion matrix of a set: counts on the device, and each sample's scores for what ranks samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "task/class_counts.h"
#include "task/ranking.h"
#include "task/task.h"

namespace trainctl::task {

class ClassificationEvaluation final : public Evaluation {
 public:
  ClassificationEvaluation(model::Model& model, std::int64_t num_classes, std::vector<std::string> class_names,
                           std::vector<ClassificationMetric> metrics);

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The loss, without label smoothing and weights, and the chosen metrics.
  Metrics metrics() override;
  /// Returns {"num_samples": N, "class_names": […], "per_class_accuracy": [… or null], "per_class_f1": [… or null],
  /// "confusion": [[row: label, column: prediction]]}; "" without samples. Names are there only if the classes have
  /// any, the matrix only up to kMaxConfusionClasses. A class without samples has null.
  std::string details() override;

  static constexpr std::int64_t kMaxConfusionClasses = 1000;

 private:
  void start(const at::Device& device);
  bool computes(ClassificationMetric metric) const;
  void add_calibration(const at::Tensor& logits, const at::Tensor& hits);
  ClassCounts counts() const;
  double value_of(ClassificationMetric metric, const ClassCounts& classes, const RankingMetrics& ranking) const;
  double calibration_error() const;
  /// Returns the metrics of class 1 of two, and else the means over the classes that have them.
  RankingMetrics ranking() const;

  model::Model& model_;
  std::int64_t num_classes_;
  std::vector<std::string> class_names_;
  std::vector<ClassificationMetric> metrics_;
  bool keeps_scores_ = false;
  std::int64_t top_ = 0;  // the largest k of the chosen top-k accuracies
  std::int64_t count_ = 0;
  at::Tensor loss_;                 // [], double
  at::Tensor top_hits_;             // [top_], int64: samples whose label is the largest output, the second largest, …
  at::Tensor labeled_;              // [C], int64: samples of each class
  at::Tensor predicted_;            // [C], int64: samples taken for each class
  at::Tensor hits_;                 // [C], int64: samples of each class that were predicted right
  at::Tensor confusion_;            // [C * C], int64; undefined where there are too many classes
  at::Tensor calibration_;          // [3, bins], double: samples, their confidences, their hits
  std::vector<at::Tensor> scores_;  // [B, 1 + classes] each, float: the label, then the log-odds of each class
};

}  // namespace trainctl::task

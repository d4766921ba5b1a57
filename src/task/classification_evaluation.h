// Loss, top-1 and top-5 accuracy and the confusion matrix of a set, summed on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "task/task.h"

namespace trainctl {

class ClassificationEvaluation final : public Evaluation {
 public:
  ClassificationEvaluation(Model& model, std::int64_t num_classes) : model_(model), num_classes_(num_classes) {}

  void add(const Batch& batch) override;
  /// loss, accuracy, and top5_accuracy where there are more than five classes. The loss has no label smoothing.
  Metrics metrics() override;
  /// {"num_samples": N, "per_class_accuracy": [… or null], "confusion": [[row: label, column: prediction]]};
  /// the matrix only up to kMaxConfusionClasses.
  std::string details() override;

  static constexpr std::int64_t kMaxConfusionClasses = 1000;

 private:
  void start(const at::Device& device);

  Model& model_;
  std::int64_t num_classes_;
  std::int64_t count_ = 0;
  at::Tensor loss_;       // [], double
  at::Tensor top5_;       // [], int64: samples whose label is among the five largest
  at::Tensor totals_;     // [C], int64: samples of each class
  at::Tensor hits_;       // [C], int64: of them, those predicted right
  at::Tensor confusion_;  // [C * C], int64; undefined where there are too many classes
};

}  // namespace trainctl

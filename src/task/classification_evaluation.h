// Loss, accuracy, F1, Matthews' coefficient and the confusion matrix of a set, summed on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "task/class_counts.h"
#include "task/task.h"

namespace trainctl::task {

class ClassificationEvaluation final : public Evaluation {
 public:
  ClassificationEvaluation(model::Model& model, std::int64_t num_classes, std::vector<std::string> class_names)
      : model_(model), num_classes_(num_classes), class_names_(std::move(class_names)) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// loss, accuracy, f1 of class 1 where there are two, top5_accuracy where there are more than five, f1_macro,
  /// matthews. The loss has no label smoothing.
  Metrics metrics() override;
  /// Returns {"num_samples": N, "class_names": […], "per_class_accuracy": [… or null], "per_class_f1": [… or null],
  /// "confusion": [[row: label, column: prediction]]}; "" without samples. Names are there only if the classes have
  /// any, the matrix only up to kMaxConfusionClasses. A class without samples has null.
  std::string details() override;

  static constexpr std::int64_t kMaxConfusionClasses = 1000;

 private:
  void start(const at::Device& device);
  ClassCounts counts() const;

  model::Model& model_;
  std::int64_t num_classes_;
  std::vector<std::string> class_names_;
  std::int64_t count_ = 0;
  at::Tensor loss_;       // [], double
  at::Tensor top5_;       // [], int64: samples whose label is among the five largest
  at::Tensor labeled_;    // [C], int64: samples of each class
  at::Tensor predicted_;  // [C], int64: samples taken for each class
  at::Tensor hits_;       // [C], int64: samples of each class that were predicted right
  at::Tensor confusion_;  // [C * C], int64; undefined where there are too many classes
};

}  // namespace trainctl::task

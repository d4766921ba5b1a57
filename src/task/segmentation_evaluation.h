// The metrics of a set with a class for each pixel, from one confusion matrix of all pixels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "task/task.h"

namespace trainctl::task {

/// Runs the model. Returns the logits [B, C, H, W] of each pixel; throws core::Error if the output has another shape.
/// `size`: the batch's targets, [B, H, W].
at::Tensor pixel_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes,
                        at::IntArrayRef size);

class SegmentationEvaluation final : public Evaluation {
 public:
  SegmentationEvaluation(model::Model& model, std::int64_t num_classes, std::vector<std::string> class_names,
                         std::vector<SegmentationMetric> metrics)
      : model_(model), num_classes_(num_classes), class_names_(std::move(class_names)), metrics_(std::move(metrics)) {}

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The loss, without weights, per pixel with a class, and the chosen metrics.
  Metrics metrics() override;
  /// Returns {"num_samples": N, "num_pixels": N, "class_names": […], "per_class_iou": [… or null],
  /// "per_class_accuracy": [… or null], "confusion": [[row: class, column: prediction]]}; "" without samples. The
  /// confusion matrix counts pixels. A class that neither occurs nor was predicted has null.
  std::string details() override;

 private:
  void start(const at::Device& device);
  double value_of(SegmentationMetric metric, const at::Tensor& confusion) const;

  model::Model& model_;
  std::int64_t num_classes_;
  std::vector<std::string> class_names_;
  std::vector<SegmentationMetric> metrics_;
  std::int64_t count_ = 0;
  at::Tensor loss_;       // [], double
  at::Tensor confusion_;  // [C * C], int64: pixels
};

}  // namespace trainctl::task

// A class for each pixel: cross-entropy of each pixel that has one.
#include <ATen/core/Tensor.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "runtime/fake_tensor.h"
#include "task/choose_metrics.h"
#include "task/class_weights.h"
#include "task/micro_batch.h"
#include "task/report.h"
#include "task/task.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// The metrics of a set with a class for each pixel, from one confusion matrix of all pixels.
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

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNoClass = -100;

/// Pixels of a class, of those that were taken for it, and of both.
struct PixelCounts {
  at::Tensor labeled;    // [C]
  at::Tensor predicted;  // [C]
  at::Tensor hits;       // [C]
};

/// `confusion`: double [C, C], on the host.
PixelCounts counts_of(const at::Tensor& confusion) {
  return {.labeled = confusion.sum(1), .predicted = confusion.sum(0), .hits = confusion.diagonal()};
}

/// Returns part / whole; NaN if the whole is 0.
at::Tensor iou_of(const PixelCounts& counts) {
  return counts.hits.div(counts.labeled.add(counts.predicted).sub(counts.hits));
}

Json list_of(const at::Tensor& values) {
  Json list = Json::array();
  const at::Tensor host = values.contiguous();
  for (std::int64_t i = 0; i < host.numel(); ++i) {
    const double value = host.const_data_ptr<double>()[i];
    list.push_back(std::isnan(value) ? Json(nullptr) : Json(value));
  }
  return list;
}

std::string shape_text(at::IntArrayRef sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

/// Runs the model. Returns the logits [B, C, H, W] of each pixel; throws core::Error if the output has another shape.
/// `size`: the batch's targets, [B, H, W].
at::Tensor pixel_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes,
                        at::IntArrayRef size) {
  at::Tensor logits = model.forward(input);
  const std::vector<std::int64_t> wanted{size[0], num_classes, size[1], size[2]};
  if (logits.sizes() != at::IntArrayRef(wanted))
    throw core::Error("semantic_segmentation: the model's output is " + shape_text(logits.sizes()) + "; expected " +
                      shape_text(wanted) + ": samples, classes, height, width")
        .hint("the last layer gives a score for each class and pixel");
  return logits;
}

void SegmentationEvaluation::start(const at::Device& device) {
  const auto counts = at::TensorOptions().dtype(at::kLong).device(device);
  loss_ = at::zeros({}, counts.dtype(at::kDouble));
  confusion_ = at::zeros({num_classes_ * num_classes_}, counts);
}

void SegmentationEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const c10::NoGradGuard no_grad;
  const at::Tensor& targets = batch.targets;  // [B, H, W]
  const at::Tensor logits = pixel_logits(model_, input, num_classes_, targets.sizes()).to(at::kFloat);
  if (count_ == 0) start(logits.device());
  count_ += batch.size();
  if (on_answers) on_answers(batch, logits);
  loss_.add_(at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, kNoClass));
  const at::Tensor has_class = targets.ne(kNoClass);
  const at::Tensor cells = logits.argmax(1).add(targets, num_classes_).where(has_class, 0);
  confusion_.scatter_add_(0, cells.flatten(), has_class.to(at::kLong).flatten());
}

void SegmentationEvaluation::pool(Pool& pool) {
  if (count_ == 0) start(pool.device());
  pool.sum(count_);
  pool.sum(loss_);
  pool.sum(confusion_);
}

double SegmentationEvaluation::value_of(SegmentationMetric metric, const at::Tensor& confusion) const {
  const PixelCounts counts = counts_of(confusion);
  switch (metric) {
    case SegmentationMetric::mean_iou:
      return iou_of(counts).nanmean().item<double>();
    case SegmentationMetric::pixel_accuracy:
      return counts.hits.sum().div(confusion.sum()).item<double>();
    case SegmentationMetric::mean_accuracy:
      return counts.hits.div(counts.labeled).nanmean().item<double>();
  }
  return 0;
}

Metrics SegmentationEvaluation::metrics() {
  if (count_ == 0) return {};
  const at::Tensor confusion = confusion_.view({num_classes_, num_classes_}).cpu().to(at::kDouble);
  Metrics metrics{{"loss", loss_.item<double>() / confusion.sum().item<double>()}};
  for (const SegmentationMetric metric : metrics_)
    metrics.emplace_back(config::name_of(metric), value_of(metric, confusion));
  return metrics;
}

std::string SegmentationEvaluation::details() {
  if (count_ == 0) return "";
  const at::Tensor confusion = confusion_.view({num_classes_, num_classes_}).cpu().to(at::kDouble);
  const PixelCounts counts = counts_of(confusion);
  Json document = {{"num_samples", count_}, {"num_pixels", confusion.sum().to(at::kLong).item<std::int64_t>()}};
  if (!class_names_.empty()) document["class_names"] = class_names_;
  document["per_class_iou"] = list_of(iou_of(counts));
  document["per_class_accuracy"] = list_of(counts.hits.div(counts.labeled));
  const std::vector<std::int64_t> cells = host_counts(confusion_);
  Json rows = Json::array();
  for (auto row = cells.begin(); row != cells.end(); row += num_classes_)
    rows.push_back(std::vector<std::int64_t>(row, row + num_classes_));
  document["confusion"] = std::move(rows);
  return document.dump();
}

class SemanticSegmentation final : public Task {
 public:
  SemanticSegmentation(SemanticSegmentationConfig config, std::int64_t num_classes, TeacherPtr teacher)
      : config_(std::move(config)),
        num_classes_(num_classes),
        weights_(config_.class_weights),
        teacher_(std::move(teacher)) {}

  /// Returns the number of pixels with a class, or the sum of the weights of their classes.
  std::optional<double> weight_of(const dataset::Batch& batch) const override {
    if (runtime::FakeTensorScope::is_active()) return std::nullopt;
    const at::Tensor targets = batch.targets.contiguous();
    std::vector<std::int64_t> pixels(static_cast<std::size_t>(num_classes_));
    const auto* const begin = targets.const_data_ptr<std::int64_t>();
    std::for_each(begin, begin + targets.numel(), [&](std::int64_t target) {
      if (target >= 0) ++pixels[static_cast<std::size_t>(target)];
    });
    double sum = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i)
      sum += static_cast<double>(pixels[i]) * (config_.class_weights.empty() ? 1 : config_.class_weights[i]);
    return sum;
  }

  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override {
    const auto num_pixels = static_cast<double>(batch.targets.numel());
    MicroBatch prepared = whole_samples(std::move(batch));
    prepared.count = prepared.batch.weight.value_or(num_pixels);
    return prepared;
  }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor& targets = micro_batch.batch.targets;
    const at::Tensor logits = pixel_logits(model, micro_batch.input, num_classes_, targets.sizes()).to(at::kFloat);
    const at::Tensor own = at::cross_entropy_loss(logits, targets, weights_.on(logits.device()), at::Reduction::Sum);
    if (teacher_ == nullptr) return {.sum = own, .count = micro_batch.count};
    const at::Tensor wanted = pixel_rows(teacher_->logits(micro_batch.input, micro_batch.batch.indices), targets);
    return {.sum = teacher_->blend(own, pixel_rows(logits, targets), wanted), .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<SegmentationEvaluation>(model, num_classes_, spec.class_names,
                                                    chosen_metrics(config_, spec));
  }

 private:
  /// Returns logits [B, C, H, W] as rows [B H W, C], all zeros where a pixel has no class: there is no loss.
  static at::Tensor pixel_rows(const at::Tensor& logits, const at::Tensor& targets) {
    return logits.mul(targets.ge(0).unsqueeze(1)).permute({0, 2, 3, 1}).flatten(0, 2);
  }

  SemanticSegmentationConfig config_;
  std::int64_t num_classes_;
  ClassWeights weights_;
  TeacherPtr teacher_;
};

}  // namespace

std::unique_ptr<Task> build(const SemanticSegmentationConfig& config, const dataset::SampleSpec& spec,
                            TeacherPtr teacher) {
  check_class_weights("task.class_weights", config.class_weights, spec);
  return std::make_unique<SemanticSegmentation>(config, spec.num_classes, std::move(teacher));
}

}  // namespace trainctl::task

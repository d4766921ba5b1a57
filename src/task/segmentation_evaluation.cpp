#include "task/segmentation_evaluation.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "core/error.h"
#include "core/text.h"
#include "task/report.h"

namespace trainctl::task {
namespace {

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

}  // namespace

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

}  // namespace trainctl::task

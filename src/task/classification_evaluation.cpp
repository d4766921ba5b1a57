#include "task/classification_evaluation.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "task/report.h"

namespace trainctl::task {
namespace {

constexpr std::int64_t kCalibrationBins = 15;  // https://arxiv.org/abs/1706.04599

/// Returns the log-odds of each class, or of class 1 of two. No probability is rounded on the way: those near 1 would
/// tie.
at::Tensor log_odds(const at::Tensor& logits) {
  const at::Tensor exact = logits.to(at::kDouble);
  if (exact.size(1) == 2) return exact.narrow(1, 1, 1).sub(exact.narrow(1, 0, 1)).to(at::kFloat);
  std::vector<at::Tensor> odds;
  for (std::int64_t c = 0; c < exact.size(1); ++c) {
    at::Tensor others = exact.clone();
    others.select(1, c).fill_(-std::numeric_limits<double>::infinity());
    odds.push_back(exact.select(1, c).sub(at::logsumexp(others, {1})));
  }
  return at::stack(odds, 1).to(at::kFloat);
}

}  // namespace

ClassificationEvaluation::ClassificationEvaluation(model::Model& model, std::int64_t num_classes,
                                                   std::vector<std::string> class_names,
                                                   std::vector<ClassificationMetric> metrics)
    : model_(model), num_classes_(num_classes), class_names_(std::move(class_names)), metrics_(std::move(metrics)) {
  keeps_scores_ = computes(ClassificationMetric::auroc) || computes(ClassificationMetric::average_precision);
  for (const ClassificationMetric metric : metrics_) top_ = std::max(top_, top_k_of(metric));
}

bool ClassificationEvaluation::computes(ClassificationMetric metric) const {
  return std::find(metrics_.begin(), metrics_.end(), metric) != metrics_.end();
}

void ClassificationEvaluation::start(const at::Device& device) {
  const auto counts = at::TensorOptions().dtype(at::kLong).device(device);
  loss_ = at::zeros({}, counts.dtype(at::kDouble));
  top_hits_ = at::zeros({top_}, counts);
  labeled_ = at::zeros({num_classes_}, counts);
  predicted_ = at::zeros({num_classes_}, counts);
  hits_ = at::zeros({num_classes_}, counts);
  if (num_classes_ <= kMaxConfusionClasses) confusion_ = at::zeros({num_classes_ * num_classes_}, counts);
  calibration_ = at::zeros({3, kCalibrationBins}, counts.dtype(at::kDouble));
}

void ClassificationEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const c10::NoGradGuard no_grad;
  const at::Tensor logits = model_.forward(input).to(at::kFloat);  // [B, C]
  if (logits.dim() != 2 || logits.size(1) != num_classes_)
    throw core::Error("the model has " + core::format_count(logits.size(-1)) + " outputs, but the evaluation set has " +
                      core::format_count(num_classes_) + " classes");
  const at::Tensor& targets = batch.targets;  // [B]
  if (count_ == 0) start(logits.device());
  count_ += batch.size();
  if (on_answers) on_answers(batch, logits);

  loss_.add_(at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum));
  const at::Tensor predicted = logits.argmax(1);
  const at::Tensor ones = at::ones_like(targets);
  const at::Tensor hits = predicted.eq(targets).to(at::kLong);
  labeled_.scatter_add_(0, targets, ones);
  predicted_.scatter_add_(0, predicted, ones);
  hits_.scatter_add_(0, targets, hits);
  if (confusion_.defined()) confusion_.scatter_add_(0, predicted.add(targets, num_classes_), ones);
  if (top_ > 0) {
    const at::Tensor best = std::get<1>(at::topk(logits, top_, /*dim=*/1, /*largest=*/true, /*sorted=*/true));
    top_hits_.add_(best.eq(targets.unsqueeze(1)).sum(0));
  }
  if (computes(ClassificationMetric::calibration_error)) add_calibration(logits, hits);
  if (keeps_scores_) scores_.push_back(at::cat({targets.unsqueeze(1).to(at::kFloat), log_odds(logits)}, 1));
}

void ClassificationEvaluation::add_calibration(const at::Tensor& logits, const at::Tensor& hits) {
  const at::Tensor confidence = std::get<0>(at::softmax(logits.to(at::kDouble), 1).max(1));
  const at::Tensor bins = confidence.mul(kCalibrationBins).ceil().sub(1).clamp(0, kCalibrationBins - 1).to(at::kLong);
  const at::Tensor values = at::stack({at::ones_like(confidence), confidence, hits.to(at::kDouble)});
  calibration_.scatter_add_(1, bins.unsqueeze(0).expand({3, bins.size(0)}), values);
}

void ClassificationEvaluation::pool(Pool& pool) {
  if (count_ == 0) start(pool.device());
  pool.sum(count_);
  for (at::Tensor* sum : {&loss_, &labeled_, &predicted_, &hits_, &calibration_}) pool.sum(*sum);
  if (top_ > 0) pool.sum(top_hits_);
  if (confusion_.defined()) pool.sum(confusion_);
  if (!keeps_scores_) return;
  const std::int64_t width = 1 + (num_classes_ == 2 ? 1 : num_classes_);
  scores_.push_back(at::zeros({0, width}, at::TensorOptions(pool.device()).dtype(at::kFloat)));
  scores_ = pool.gather(at::cat(scores_));
}

ClassCounts ClassificationEvaluation::counts() const {
  return {.labeled = host_counts(labeled_), .predicted = host_counts(predicted_), .hits = host_counts(hits_)};
}

RankingMetrics ClassificationEvaluation::ranking() const {
  if (!keeps_scores_) return {};
  const at::Tensor rows = at::cat(scores_).cpu().contiguous();
  const std::int64_t width = rows.size(1);
  const auto* values = rows.const_data_ptr<float>();
  const auto of_class = [&](std::int64_t column, std::int64_t label) {
    std::vector<ScoredSample> samples;
    samples.reserve(static_cast<std::size_t>(rows.size(0)));
    for (std::int64_t row = 0; row < rows.size(0); ++row)
      samples.push_back({values[row * width + column], static_cast<std::int64_t>(values[row * width]) == label});
    return ranking_metrics(std::move(samples));
  };
  if (num_classes_ == 2) return of_class(1, 1);
  RankingMetrics sums;
  double num_auroc = 0;
  double num_precision = 0;
  for (std::int64_t label = 0; label < num_classes_; ++label) {
    const RankingMetrics own = of_class(label + 1, label);
    if (!std::isnan(own.auroc)) sums.auroc += own.auroc, ++num_auroc;
    if (!std::isnan(own.average_precision)) sums.average_precision += own.average_precision, ++num_precision;
  }
  return {.auroc = sums.auroc / num_auroc, .average_precision = sums.average_precision / num_precision};
}

double ClassificationEvaluation::calibration_error() const {
  const at::Tensor gaps = calibration_[1].sub(calibration_[2]).abs();  // of each bin: samples × |confidence - accuracy|
  return gaps.sum().item<double>() / static_cast<double>(count_);
}

double ClassificationEvaluation::value_of(ClassificationMetric metric, const ClassCounts& classes,
                                          const RankingMetrics& ranking) const {
  const auto samples = static_cast<double>(count_);
  switch (metric) {
    case ClassificationMetric::accuracy:
      return hits_.sum().item<double>() / samples;
    case ClassificationMetric::balanced_accuracy:
      return balanced_accuracy(classes);
    case ClassificationMetric::top2_accuracy:
    case ClassificationMetric::top3_accuracy:
    case ClassificationMetric::top5_accuracy:
    case ClassificationMetric::top10_accuracy:
      return top_hits_.narrow(0, 0, top_k_of(metric)).sum().item<double>() / samples;
    case ClassificationMetric::f1:
      return f1_of(classes, 1);
    case ClassificationMetric::f1_macro:
      return macro_f1(classes);
    case ClassificationMetric::f1_weighted:
      return weighted_f1(classes);
    case ClassificationMetric::precision:
      return precision_of(classes, 1);
    case ClassificationMetric::precision_macro:
      return macro_precision(classes);
    case ClassificationMetric::recall:
      return recall_of(classes, 1);
    case ClassificationMetric::recall_macro:
      return macro_recall(classes);
    case ClassificationMetric::auroc:
      return ranking.auroc;
    case ClassificationMetric::average_precision:
      return ranking.average_precision;
    case ClassificationMetric::matthews:
      return matthews(classes);
    case ClassificationMetric::calibration_error:
      return calibration_error();
  }
  return 0;
}

Metrics ClassificationEvaluation::metrics() {
  if (count_ == 0) return {};
  const ClassCounts classes = counts();
  const RankingMetrics ranks = ranking();
  Metrics metrics{{"loss", loss_.item<double>() / static_cast<double>(count_)}};
  for (const ClassificationMetric metric : metrics_)
    metrics.emplace_back(config::name_of(metric), value_of(metric, classes, ranks));
  return metrics;
}

std::string ClassificationEvaluation::details() {
  if (count_ == 0) return "";
  nlohmann::ordered_json document = {{"num_samples", count_}};
  add_per_class(document, counts(), class_names_);
  if (!confusion_.defined()) return document.dump();
  const std::vector<std::int64_t> cells = host_counts(confusion_);
  auto rows = nlohmann::ordered_json::array();
  for (auto row = cells.begin(); row != cells.end(); row += num_classes_)
    rows.push_back(std::vector<std::int64_t>(row, row + num_classes_));
  document["confusion"] = std::move(rows);
  return document.dump();
}

}  // namespace trainctl::task

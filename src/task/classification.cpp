// Classification with one label per sample, for images or texts.
#include <ATen/core/Tensor.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "runtime/fake_tensor.h"
#include "task/choose_metrics.h"
#include "task/class_counts.h"
#include "task/class_weights.h"
#include "task/micro_batch.h"
#include "task/mixing.h"
#include "task/ranking.h"
#include "task/report.h"
#include "task/task.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// The metrics and the confusion matrix of a set: counts on the device, and each sample's scores for what ranks
/// samples.
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

constexpr double kSure = 1e-8;  // 1 - p at least in the focal loss: a power below one has no gradient at 0

class Classification final : public Task {
 public:
  Classification(const ClassificationConfig& config, std::int64_t num_classes, ClassWeights weights, TeacherPtr teacher)
      : config_(config), num_classes_(num_classes), weights_(std::move(weights)), teacher_(std::move(teacher)) {}

  std::optional<double> weight_of(const dataset::Batch& batch) const override {
    if (weights_.empty() || runtime::FakeTensorScope::is_active()) return std::nullopt;
    const at::Tensor targets = batch.targets.contiguous();
    double sum = 0;
    for (std::int64_t i = 0; i < targets.numel(); ++i) sum += weights_[targets.const_data_ptr<std::int64_t>()[i]];
    return sum;
  }

  MicroBatch prepare(dataset::Batch batch, std::uint64_t key) const override {
    MicroBatch prepared = whole_samples(std::move(batch));
    if (config_.mixup == 0 && config_.cutmix == 0) return prepared;
    const Mixed mixed = mix_images(prepared.batch.inputs, key);
    prepared.input = {.values = mixed.images};
    prepared.share = mixed.share;
    return prepared;
  }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor logits = logits_of(model, micro_batch.input);
    const at::Tensor own = loss_of_targets(logits, micro_batch);
    if (teacher_ == nullptr) return {.sum = own, .count = micro_batch.count};
    return {.sum = teacher_->blend(own, logits, teacher_->logits(micro_batch.input, micro_batch.batch.indices)),
            .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<ClassificationEvaluation>(model, num_classes_, spec.class_names,
                                                      chosen_metrics(config_, spec));
  }

 private:
  at::Tensor loss_of_targets(const at::Tensor& logits, const MicroBatch& micro_batch) const {
    const at::Tensor& targets = micro_batch.batch.targets;
    const at::Tensor own = cross_entropy(logits, targets);
    if (config_.mixup == 0 && config_.cutmix == 0) return own;
    const at::Tensor other = cross_entropy(logits, roll_by_one(targets));
    return own.mul(micro_batch.share).add(other, 1 - micro_batch.share);
  }

  at::Tensor logits_of(model::Model& model, const model::ModelInput& input) const {
    at::Tensor logits = model.forward(input);  // [B, num_classes]
    if (logits.dim() != 2 || logits.size(1) != num_classes_)
      throw core::Error("the model has " + core::format_count(logits.size(-1)) + " outputs, but the dataset has " +
                        core::format_count(num_classes_) + " classes")
          .hint("leave model.num_classes at auto");
    return logits;
  }

  at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) const {
    if (config_.focal_gamma > 0) return focal_loss(logits, targets);
    if (weights_.empty())
      return at::cross_entropy_loss(logits, targets, /*weight=*/{}, at::Reduction::Sum, /*ignore_index=*/-100,
                                    config_.label_smoothing);
    return at::cross_entropy_loss(logits.to(at::kFloat), targets, weights_.on(logits.device()), at::Reduction::Sum,
                                  /*ignore_index=*/-100, config_.label_smoothing);
  }

  /// Returns the sum of -w (1 - p)^gamma log p, p being the probability of a sample's class, w the weight of the class.
  at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& targets) const {
    const at::Tensor log_p = at::log_softmax(logits.to(at::kFloat), 1).gather(1, targets.unsqueeze(1)).squeeze(1);
    const at::Tensor focus = log_p.expm1().neg().clamp_min(kSure).pow(config_.focal_gamma);
    at::Tensor loss = log_p.mul(focus).neg();
    if (!weights_.empty()) loss = loss.mul(weights_.on(logits.device()).index_select(0, targets));
    return loss.sum();
  }

  Mixed mix_images(const at::Tensor& images, std::uint64_t key) const {
    runtime::Random random(key);
    const bool both = config_.mixup > 0 && config_.cutmix > 0;
    const bool blend = both ? random.uniform() < 0.5 : config_.mixup > 0;
    return blend ? mixup(images, config_.mixup, random) : cutmix(images, config_.cutmix, random);
  }

  ClassificationConfig config_;
  std::int64_t num_classes_;
  ClassWeights weights_;
  TeacherPtr teacher_;
};

std::vector<double> class_weights(const ClassificationConfig& config, const dataset::SampleSpec& spec) {
  check_class_weights("task.class_weights", config.class_weights, spec);
  if (config.class_weighting == ClassWeighting::none) return config.class_weights;
  if (spec.class_counts.empty())
    throw core::Error(
        "task.class_weighting: balanced needs the number of samples of each class, which this dataset "
        "doesn't tell before it reads them")
        .hint("list the weights in task.class_weights");
  double samples = 0;
  for (const std::int64_t count : spec.class_counts) samples += static_cast<double>(count);
  std::vector<double> weights;
  for (const std::int64_t count : spec.class_counts)  // a class without samples is never weighed
    weights.push_back(count == 0 ? 1 : samples / (static_cast<double>(spec.num_classes) * static_cast<double>(count)));
  return weights;
}

}  // namespace

std::unique_ptr<Task> build(const ClassificationConfig& config, const dataset::SampleSpec& spec, TeacherPtr teacher) {
  if (spec.num_classes < 1)
    throw core::Error("classification needs labels, but the dataset's number of classes is unknown")
        .hint("set dataset.num_classes");
  if ((config.mixup > 0 || config.cutmix > 0) && !spec.is_image())
    throw core::Error("mixup and cutmix blend images, but the dataset's samples are no images")
        .hint("set task.mixup and task.cutmix to 0");
  return std::make_unique<Classification>(config, spec.num_classes, ClassWeights(class_weights(config, spec)),
                                          std::move(teacher));
}

}  // namespace trainctl::task

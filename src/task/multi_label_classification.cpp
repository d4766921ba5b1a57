// Several labels per sample: binary cross-entropy of each label by itself.
#include <ATen/core/Tensor.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "task/choose_metrics.h"
#include "task/class_counts.h"
#include "task/class_weights.h"
#include "task/micro_batch.h"
#include "task/ranking.h"
#include "task/report.h"
#include "task/task.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// The metrics of a set whose samples have several labels: counts on the device, and each sample's scores for what
/// ranks samples.
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

double total(const std::vector<std::int64_t>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

/// Returns the mean over the classes that have the measure.
double mean_of(const std::vector<RankingMetrics>& ranks, double RankingMetrics::*measure) {
  double sum = 0;
  double count = 0;
  for (const RankingMetrics& one : ranks)
    if (!std::isnan(one.*measure)) sum += one.*measure, ++count;
  return sum / count;
}

/// Returns the mean of F1 over all labels. One that neither occurs nor was predicted counts 0, as in scikit-learn's
/// f1_score of indicators with zero_division=0.
double mean_f1(const ClassCounts& counts) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.labeled.size(); ++i) sum += f1_of(counts, i);
  return sum / static_cast<double>(counts.labeled.size());
}

/// Runs the model. Returns the logits [B, C] of the labels; throws core::Error if the model has other outputs.
at::Tensor label_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes) {
  at::Tensor logits = model.forward(input);
  if (logits.dim() != 2 || logits.size(1) != num_classes)
    throw core::Error("the model has " + core::format_count(logits.size(-1)) + " outputs, but the dataset has " +
                      core::format_count(num_classes) + " classes")
        .hint("leave model.num_classes at auto");
  return logits;
}

void MultiLabelEvaluation::start(const at::Device& device) {
  const auto counts = at::TensorOptions().dtype(at::kLong).device(device);
  loss_ = at::zeros({}, counts.dtype(at::kDouble));
  exact_ = at::zeros({}, counts);
  for (at::Tensor* sum : {&labeled_, &predicted_, &hits_}) *sum = at::zeros({options_.num_classes}, counts);
}

void MultiLabelEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const c10::NoGradGuard no_grad;
  const at::Tensor logits = label_logits(model_, input, options_.num_classes).to(at::kFloat);  // [B, C]
  if (count_ == 0) start(logits.device());
  count_ += batch.size();
  if (on_answers) on_answers(batch, logits);
  const at::Tensor labels = batch.targets.to(at::kFloat);
  loss_.add_(at::binary_cross_entropy_with_logits(logits, labels, {}, {}, at::Reduction::Sum));
  const at::Tensor given = at::sigmoid(logits.to(at::kDouble)).ge(options_.threshold);
  const at::Tensor has = batch.targets.ne(0);
  labeled_.add_(has.sum(0));
  predicted_.add_(given.sum(0));
  hits_.add_(given.logical_and(has).sum(0));
  exact_.add_(given.eq(has).all(1).sum());
  rows_.push_back(at::cat({labels, logits}, 1));
}

void MultiLabelEvaluation::pool(Pool& pool) {
  if (count_ == 0) start(pool.device());
  pool.sum(count_);
  for (at::Tensor* sum : {&loss_, &exact_, &labeled_, &predicted_, &hits_}) pool.sum(*sum);
  rows_.push_back(at::zeros({0, 2 * options_.num_classes}, at::TensorOptions(pool.device()).dtype(at::kFloat)));
  rows_ = pool.gather(at::cat(rows_));
}

ClassCounts MultiLabelEvaluation::counts() const {
  return {.labeled = host_counts(labeled_), .predicted = host_counts(predicted_), .hits = host_counts(hits_)};
}

std::vector<RankingMetrics> MultiLabelEvaluation::ranking() const {
  const at::Tensor rows = at::cat(rows_).cpu().contiguous();
  const std::int64_t width = rows.size(1);
  const auto* const values = rows.const_data_ptr<float>();
  std::vector<RankingMetrics> ranks;
  for (std::int64_t label = 0; label < options_.num_classes; ++label) {
    std::vector<ScoredSample> samples;
    for (std::int64_t row = 0; row < rows.size(0); ++row)
      samples.push_back({.score = values[row * width + options_.num_classes + label],
                         .is_positive = values[row * width + label] != 0});
    ranks.push_back(ranking_metrics(std::move(samples)));
  }
  return ranks;
}

double MultiLabelEvaluation::value_of(MultiLabelMetric metric, const ClassCounts& classes,
                                      const std::vector<RankingMetrics>& ranks) const {
  const double hits = total(classes.hits);
  const double labeled = total(classes.labeled);
  const double predicted = total(classes.predicted);
  switch (metric) {
    case MultiLabelMetric::mean_average_precision:
      return mean_of(ranks, &RankingMetrics::average_precision);
    case MultiLabelMetric::f1_micro:
      return labeled + predicted == 0 ? 0 : 2 * hits / (labeled + predicted);
    case MultiLabelMetric::f1_macro:
      return mean_f1(classes);
    case MultiLabelMetric::precision_micro:
      return predicted == 0 ? 0 : hits / predicted;
    case MultiLabelMetric::recall_micro:
      return labeled == 0 ? 0 : hits / labeled;
    case MultiLabelMetric::exact_match:
      return exact_.item<double>() / static_cast<double>(count_);
    case MultiLabelMetric::auroc:
      return mean_of(ranks, &RankingMetrics::auroc);
  }
  return 0;
}

Metrics MultiLabelEvaluation::metrics() {
  if (count_ == 0) return {};
  const ClassCounts classes = counts();
  const std::vector<RankingMetrics> ranks = ranking();
  Metrics metrics{{"loss", loss_.item<double>() / static_cast<double>(count_ * options_.num_classes)}};
  for (const MultiLabelMetric metric : options_.metrics)
    metrics.emplace_back(config::name_of(metric), value_of(metric, classes, ranks));
  return metrics;
}

std::string MultiLabelEvaluation::details() {
  if (count_ == 0) return "";
  nlohmann::ordered_json document = {{"num_samples", count_}};
  if (!options_.class_names.empty()) document["class_names"] = options_.class_names;
  const ClassCounts classes = counts();
  auto precisions = nlohmann::ordered_json::array();
  auto f1 = nlohmann::ordered_json::array();
  for (const RankingMetrics& one : ranking())
    precisions.push_back(std::isnan(one.average_precision) ? nlohmann::ordered_json(nullptr)
                                                           : nlohmann::ordered_json(one.average_precision));
  for (std::size_t i = 0; i < classes.labeled.size(); ++i)
    f1.push_back(classes.labeled[i] + classes.predicted[i] == 0 ? nlohmann::ordered_json(nullptr)
                                                                : nlohmann::ordered_json(f1_of(classes, i)));
  document["per_class_average_precision"] = std::move(precisions);
  document["per_class_f1"] = std::move(f1);
  document["samples_with_label"] = classes.labeled;
  return document.dump();
}

class MultiLabelClassification final : public Task {
 public:
  MultiLabelClassification(MultiLabelClassificationConfig config, std::int64_t num_classes)
      : config_(std::move(config)), num_classes_(num_classes), pos_weight_(config_.pos_weight) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }

  /// The loss is a sum over samples and labels.
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override {
    MicroBatch prepared = whole_samples(std::move(batch));
    prepared.count *= static_cast<double>(num_classes_);
    return prepared;
  }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor logits = label_logits(model, micro_batch.input, num_classes_).to(at::kFloat);
    return {
        .sum = at::binary_cross_entropy_with_logits(logits, micro_batch.batch.targets.to(at::kFloat),
                                                    /*weight=*/{}, pos_weight_.on(logits.device()), at::Reduction::Sum),
        .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<MultiLabelEvaluation>(
        model, MultiLabelEvaluation::Options{.num_classes = num_classes_,
                                             .class_names = spec.class_names,
                                             .metrics = chosen_metrics(config_, spec),
                                             .threshold = config_.threshold});
  }

 private:
  MultiLabelClassificationConfig config_;
  std::int64_t num_classes_;
  ClassWeights pos_weight_;
};

}  // namespace

std::unique_ptr<Task> build(const MultiLabelClassificationConfig& config, const dataset::SampleSpec& spec) {
  check_class_weights("task.pos_weight", config.pos_weight, spec);
  return std::make_unique<MultiLabelClassification>(config, spec.num_classes);
}

}  // namespace trainctl::task

// Token classification: a class for each labeled token.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "task/choose_metrics.h"
#include "task/class_counts.h"
#include "task/micro_batch.h"
#include "task/report.h"
#include "task/spans.h"
#include "task/target_rows.h"
#include "task/task.h"
#include "task/tasks.h"

namespace trainctl::task {
namespace {

/// Returns outputs [B, T, num_classes]; a model that gives anything else is an Error.
at::Tensor token_logits(model::Model& model, const model::ModelInput& input, std::int64_t num_classes) {
  at::Tensor logits = model.forward(input);
  if (logits.dim() != 3)
    throw core::Error("the model gives a row for each sequence, but token_classification needs one for each token")
        .hint("model.head: token_classification");
  if (logits.size(2) != num_classes)
    throw core::Error("the model has " + core::format_count(logits.size(2)) + " outputs, but the dataset has " +
                      core::format_count(num_classes) + " classes")
        .hint("leave model.num_classes at auto");
  return logits;
}

/// Metrics of classes of tokens; of whole spans, too, where the classes are tags.
class TokenClassificationEvaluation final : public Evaluation {
 public:
  TokenClassificationEvaluation(model::Model& model, std::int64_t num_classes,
                                const std::vector<std::string>& class_names,
                                std::vector<TokenClassificationMetric> metrics);

  void add(const dataset::Batch& batch, const model::ModelInput& input) override;
  void pool(Pool& pool) override;
  /// The loss and the chosen metrics. Those of spans are of all spans together, as seqeval's micro average.
  Metrics metrics() override;
  /// {"num_tokens": N, per class as classification says}.
  std::string details() override;

 private:
  /// One batch's tokens with a target, on the device.
  struct Part {
    at::Tensor rows;       // int64 [N]: the sequence of the batch that a token is of
    at::Tensor targets;    // int64 [N]
    at::Tensor predicted;  // int64 [N]
  };
  /// Spans of all sequences.
  struct SpanCounts {
    std::size_t labeled = 0;
    std::size_t predicted = 0;
    std::size_t hits = 0;
  };
  ClassCounts counts() const;
  SpanCounts span_counts() const;
  double value_of(TokenClassificationMetric metric, const ClassCounts& classes, const SpanCounts& spans) const;

  model::Model& model_;
  std::int64_t num_classes_;
  std::vector<std::string> class_names_;
  std::optional<std::vector<Tag>> tags_;
  std::vector<TokenClassificationMetric> metrics_;
  std::int64_t count_ = 0;
  at::Tensor loss_;  // [], double
  std::vector<Part> parts_;
};

TokenClassificationEvaluation::TokenClassificationEvaluation(model::Model& model, std::int64_t num_classes,
                                                             const std::vector<std::string>& class_names,
                                                             std::vector<TokenClassificationMetric> metrics)
    : model_(model),
      num_classes_(num_classes),
      class_names_(class_names),
      tags_(as_tags(class_names)),
      metrics_(std::move(metrics)) {}

void TokenClassificationEvaluation::add(const dataset::Batch& batch, const model::ModelInput& input) {
  const at::NoGradGuard no_grad;
  const std::int64_t size = num_targets(batch);
  const at::Tensor logits = token_logits(model_, input, num_classes_);
  const TargetRows rows = only_target_rows(logits, batch);
  const at::Tensor values = rows.hidden.to(at::kFloat);
  const at::Tensor loss = at::cross_entropy_loss(values, rows.targets, /*weight=*/{}, at::Reduction::Sum);
  loss_ = count_ == 0 ? loss.to(at::kDouble) : loss_.add(loss);
  count_ += size;
  const at::Tensor positions =
      batch.target_positions.defined() ? batch.target_positions : at::arange(size, batch.targets.options());
  parts_.push_back({.rows = at::floor_divide(positions, batch.targets.size(1)),
                    .targets = rows.targets,
                    .predicted = values.argmax(1)});
}

void TokenClassificationEvaluation::pool(Pool& pool) {
  const auto integers = at::TensorOptions(pool.device()).dtype(at::kLong);
  if (count_ == 0) loss_ = at::zeros({}, integers.dtype(at::kDouble));
  pool.sum(count_);
  pool.sum(loss_);
  // Row numbers start at 0 in each part, so the part's number distinguishes them.
  std::vector<at::Tensor> mine{at::zeros({0, 4}, integers)};
  for (std::size_t i = 0; i < parts_.size(); ++i)
    mine.push_back(at::stack(
        {at::full_like(parts_[i].rows, static_cast<double>(i)), parts_[i].rows, parts_[i].targets, parts_[i].predicted},
        1));
  parts_.clear();
  for (const at::Tensor& tokens : pool.gather(at::cat(mine))) {
    if (tokens.size(0) == 0) continue;
    const at::Tensor longest = tokens.select(1, 1).max().add(1);
    parts_.push_back({.rows = tokens.select(1, 0).mul(longest).add(tokens.select(1, 1)),
                      .targets = tokens.select(1, 2),
                      .predicted = tokens.select(1, 3)});
  }
}

ClassCounts TokenClassificationEvaluation::counts() const {
  const std::vector<std::int64_t> none(static_cast<std::size_t>(num_classes_), 0);
  ClassCounts counts{.labeled = none, .predicted = none, .hits = none};
  for (const Part& part : parts_) {
    const std::vector<std::int64_t> targets = host_counts(part.targets);
    const std::vector<std::int64_t> predicted = host_counts(part.predicted);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      ++counts.labeled[static_cast<std::size_t>(targets[i])];
      ++counts.predicted[static_cast<std::size_t>(predicted[i])];
      if (targets[i] == predicted[i]) ++counts.hits[static_cast<std::size_t>(targets[i])];
    }
  }
  return counts;
}

TokenClassificationEvaluation::SpanCounts TokenClassificationEvaluation::span_counts() const {
  SpanCounts counts;
  if (!tags_) return counts;
  for (const Part& part : parts_) {
    const std::vector<std::int64_t> rows = host_counts(part.rows);
    const std::vector<std::int64_t> targets = host_counts(part.targets);
    const std::vector<std::int64_t> predicted = host_counts(part.predicted);
    for (std::size_t begin = 0; begin < rows.size();) {
      std::size_t end = begin;
      while (end < rows.size() && rows[end] == rows[begin]) ++end;
      const auto expected = spans_of(std::span(targets).subspan(begin, end - begin), *tags_);
      const auto found = spans_of(std::span(predicted).subspan(begin, end - begin), *tags_);
      const std::set<TokenSpan> known(expected.begin(), expected.end());
      for (const TokenSpan& one : found) counts.hits += known.count(one);
      counts.labeled += expected.size();
      counts.predicted += found.size();
      begin = end;
    }
  }
  return counts;
}

double TokenClassificationEvaluation::value_of(TokenClassificationMetric metric, const ClassCounts& classes,
                                               const SpanCounts& spans) const {
  const auto share = [](std::size_t part, std::size_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  switch (metric) {
    case TokenClassificationMetric::accuracy: {
      const std::int64_t hits = std::accumulate(classes.hits.begin(), classes.hits.end(), std::int64_t{0});
      return static_cast<double>(hits) / static_cast<double>(count_);
    }
    case TokenClassificationMetric::balanced_accuracy:
      return balanced_accuracy(classes);
    case TokenClassificationMetric::span_f1:
      return share(2 * spans.hits, spans.labeled + spans.predicted);
    case TokenClassificationMetric::span_precision:
      return share(spans.hits, spans.predicted);
    case TokenClassificationMetric::span_recall:
      return share(spans.hits, spans.labeled);
    case TokenClassificationMetric::f1_macro:
      return macro_f1(classes);
    case TokenClassificationMetric::f1_weighted:
      return weighted_f1(classes);
    case TokenClassificationMetric::precision_macro:
      return macro_precision(classes);
    case TokenClassificationMetric::recall_macro:
      return macro_recall(classes);
    case TokenClassificationMetric::matthews:
      return matthews(classes);
  }
  return 0;
}

Metrics TokenClassificationEvaluation::metrics() {
  if (count_ == 0) return {};
  const ClassCounts classes = counts();
  const SpanCounts spans = span_counts();
  Metrics metrics{{"loss", loss_.item<double>() / static_cast<double>(count_)}};
  for (const TokenClassificationMetric metric : metrics_)
    metrics.emplace_back(config::name_of(metric), value_of(metric, classes, spans));
  return metrics;
}

std::string TokenClassificationEvaluation::details() {
  if (count_ == 0) return "";
  nlohmann::ordered_json document = {{"num_tokens", count_}};
  add_per_class(document, counts(), class_names_);
  return document.dump();
}

class TokenClassification final : public Task {
 public:
  TokenClassification(const TokenClassificationConfig& config, std::int64_t num_classes, TeacherPtr teacher)
      : config_(config), num_classes_(num_classes), teacher_(std::move(teacher)) {}

  std::optional<double> weight_of(const dataset::Batch&) const override { return std::nullopt; }
  MicroBatch prepare(dataset::Batch batch, std::uint64_t) const override { return target_tokens(std::move(batch)); }

  LossSum loss(model::Model& model, const MicroBatch& micro_batch) const override {
    const at::Tensor logits = token_logits(model, micro_batch.input, num_classes_);
    const TargetRows rows = target_rows(logits, micro_batch.batch);
    const at::Tensor own = at::cross_entropy_loss(rows.hidden, rows.targets, /*weight=*/{}, at::Reduction::Sum,
                                                  /*ignore_index=*/-100, config_.label_smoothing);
    if (teacher_ == nullptr) return {.sum = own, .count = micro_batch.count};
    const at::Tensor wanted = teacher_->logits(micro_batch.input, micro_batch.batch.indices);
    return {.sum = teacher_->blend(own, only_target_rows(logits, micro_batch.batch).hidden,
                                   only_target_rows(wanted, micro_batch.batch).hidden),
            .count = micro_batch.count};
  }

  std::unique_ptr<Evaluation> evaluate(model::Model& model, const dataset::SampleSpec& spec) override {
    return std::make_unique<TokenClassificationEvaluation>(model, num_classes_, spec.class_names,
                                                           chosen_metrics(config_, spec));
  }

 private:
  TokenClassificationConfig config_;
  std::int64_t num_classes_;
  TeacherPtr teacher_;
};

}  // namespace

std::unique_ptr<Task> build(const TokenClassificationConfig& config, const dataset::SampleSpec& spec,
                            TeacherPtr teacher) {
  if (spec.num_classes < 1) throw core::Error("token_classification needs classes, but the dataset has none");
  return std::make_unique<TokenClassification>(config, spec.num_classes, std::move(teacher));
}

}  // namespace trainctl::task

#include "task/token_classification_evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <numeric>
#include <set>

#include "task/report.h"
#include "task/target_rows.h"
#include "task/tasks.h"

namespace trainctl::task {

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

}  // namespace trainctl::task

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

#include <set>

#include "task/report.h"
#include "task/target_rows.h"
#include "task/tasks.h"

namespace trainctl::task {

TokenClassificationEvaluation::TokenClassificationEvaluation(model::Model& model, std::int64_t num_classes,
                                                             const std::vector<std::string>& class_names)
    : model_(model), num_classes_(num_classes), class_names_(class_names), tags_(as_tags(class_names)) {}

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

double TokenClassificationEvaluation::span_f1() const {
  std::size_t num_spans = 0;  // labeled and predicted
  std::size_t num_right = 0;
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
      for (const TokenSpan& one : found) num_right += known.count(one);
      num_spans += expected.size() + found.size();
      begin = end;
    }
  }
  return num_spans == 0 ? 0 : 2 * static_cast<double>(num_right) / static_cast<double>(num_spans);
}

Metrics TokenClassificationEvaluation::metrics() {
  if (count_ == 0) return {};
  const ClassCounts classes = counts();
  std::int64_t hits = 0;
  for (const std::int64_t hit : classes.hits) hits += hit;
  const auto total = static_cast<double>(count_);
  Metrics metrics{{"loss", loss_.item<double>() / total}, {"accuracy", static_cast<double>(hits) / total}};
  if (tags_)
    metrics.emplace_back("span_f1", span_f1());
  else
    metrics.emplace_back("f1_macro", macro_f1(classes));
  return metrics;
}

std::string TokenClassificationEvaluation::details() {
  if (count_ == 0) return "";
  nlohmann::ordered_json document = {{"num_tokens", count_}};
  add_per_class(document, counts(), class_names_);
  return document.dump();
}

}  // namespace trainctl::task

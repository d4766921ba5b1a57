#include "task/choose_metrics.h"

#include <algorithm>
#include <concepts>

#include "core/error.h"
#include "task/spans.h"
#include "task/task.h"

namespace trainctl::task {
namespace {

constexpr std::int64_t kManyClasses = 20;  // above this, the five largest outputs are a hard question, too

void check_fit(ClassificationMetric metric, const dataset::SampleSpec& spec) {
  if (std::string why = unfit_for_classes(metric, spec.num_classes); !why.empty())
    throw core::Error("task.metrics: " + why);
}

void check_fit(CausalLmMetric metric, const dataset::SampleSpec& spec) {
  if (metric == CausalLmMetric::bits_per_byte && !spec.bytes_per_token.valid())
    throw core::Error(
        "task.metrics: bits_per_byte needs the number of bytes of the text, which files of token ids do "
        "not have")
        .hint("perplexity, or a dataset of texts");
}

void check_fit(TokenClassificationMetric metric, const dataset::SampleSpec& spec) {
  using Metric = TokenClassificationMetric;
  const bool is_of_spans =
      metric == Metric::span_f1 || metric == Metric::span_precision || metric == Metric::span_recall;
  if (is_of_spans && !as_tags(spec.class_names))
    throw core::Error("task.metrics: " + std::string(config::name_of(metric)) +
                      " counts spans, and the dataset's classes are not O, B-… and I-…")
        .hint("f1_macro");
}

void check_fit(RegressionMetric, const dataset::SampleSpec&) {}
void check_fit(MaskedLmMetric, const dataset::SampleSpec&) {}
void check_fit(Seq2SeqLmMetric, const dataset::SampleSpec&) {}
void check_fit(MultiLabelMetric, const dataset::SampleSpec&) {}
void check_fit(DpoMetric, const dataset::SampleSpec&) {}
void check_fit(SegmentationMetric, const dataset::SampleSpec&) {}

/// Appends the metric of this name. The loss is told in any case.
template <class Metric>
void watch(std::string_view name, std::vector<Metric>& metrics) {
  const std::vector<std::string_view> names = config::names_of<Metric>();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return;
  const auto metric = static_cast<Metric>(found - names.begin());
  if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) metrics.push_back(metric);
}

}  // namespace

std::vector<ClassificationMetric> chosen_metrics(const ClassificationConfig& config, const dataset::SampleSpec& spec) {
  using Metric = ClassificationMetric;
  if (!config.metrics.empty()) return config.metrics;
  std::vector<Metric> metrics{Metric::accuracy};
  if (spec.num_classes > kManyClasses) metrics.push_back(Metric::top5_accuracy);
  if (spec.num_classes == 2) metrics.push_back(Metric::f1);
  metrics.insert(metrics.end(), {Metric::f1_macro, Metric::matthews});
  return metrics;
}

std::vector<RegressionMetric> chosen_metrics(const RegressionConfig& config, const dataset::SampleSpec&) {
  if (!config.metrics.empty()) return config.metrics;
  return {RegressionMetric::pearson, RegressionMetric::spearman};
}

std::vector<TokenClassificationMetric> chosen_metrics(const TokenClassificationConfig& config,
                                                      const dataset::SampleSpec& spec) {
  using Metric = TokenClassificationMetric;
  if (!config.metrics.empty()) return config.metrics;
  return {Metric::accuracy, as_tags(spec.class_names) ? Metric::span_f1 : Metric::f1_macro};
}

std::vector<CausalLmMetric> chosen_metrics(const CausalLmConfig& config, const dataset::SampleSpec& spec) {
  if (!config.metrics.empty()) return config.metrics;
  if (!spec.bytes_per_token.valid()) return {CausalLmMetric::perplexity};
  return {CausalLmMetric::perplexity, CausalLmMetric::bits_per_byte};
}

std::vector<MaskedLmMetric> chosen_metrics(const MaskedLmConfig& config, const dataset::SampleSpec&) {
  if (!config.metrics.empty()) return config.metrics;
  return {MaskedLmMetric::perplexity, MaskedLmMetric::accuracy};
}

std::vector<Seq2SeqLmMetric> chosen_metrics(const Seq2SeqLmConfig& config, const dataset::SampleSpec&) {
  if (!config.metrics.empty()) return config.metrics;
  return {Seq2SeqLmMetric::perplexity, Seq2SeqLmMetric::accuracy};
}

std::vector<MultiLabelMetric> chosen_metrics(const MultiLabelClassificationConfig& config, const dataset::SampleSpec&) {
  using Metric = MultiLabelMetric;
  if (!config.metrics.empty()) return config.metrics;
  return {Metric::mean_average_precision, Metric::f1_micro, Metric::f1_macro, Metric::exact_match};
}

std::vector<SegmentationMetric> chosen_metrics(const SemanticSegmentationConfig& config, const dataset::SampleSpec&) {
  if (!config.metrics.empty()) return config.metrics;
  return {SegmentationMetric::mean_iou, SegmentationMetric::pixel_accuracy};
}

std::vector<DpoMetric> chosen_metrics(const DpoConfig& config, const dataset::SampleSpec&) {
  if (!config.metrics.empty()) return config.metrics;
  return {DpoMetric::reward_accuracy, DpoMetric::reward_margin};
}

TaskConfig with_metrics(TaskConfig config, const dataset::SampleSpec& spec, const std::vector<std::string>& watched) {
  if (!is_for(config, spec.targets)) return config;  // build() says so
  std::visit(
      [&]<class Config>(Config& task) {
        if constexpr (config::ForPlugIns<Config>)
          return;  // it tells all its metrics
        else {
          task.metrics = chosen_metrics(task, spec);
          for (const std::string& name : watched) watch(name, task.metrics);
          for (const auto metric : task.metrics) check_fit(metric, spec);
        }
      },
      config.value);
  return config;
}

}  // namespace trainctl::task

// The metrics that an evaluation may compute, by task. Part of task/config.h; without LibTorch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace trainctl::task {

enum class ClassificationMetric {
  accuracy,
  balanced_accuracy,
  top2_accuracy,
  top3_accuracy,
  top5_accuracy,
  top10_accuracy,
  f1,
  f1_macro,
  f1_weighted,
  precision,
  precision_macro,
  recall,
  recall_macro,
  auroc,
  average_precision,
  matthews,
  calibration_error,
};

enum class RegressionMetric { mae, mse, rmse, r2, pearson, spearman };

enum class TokenClassificationMetric {
  accuracy,
  balanced_accuracy,
  span_f1,
  span_precision,
  span_recall,
  f1_macro,
  f1_weighted,
  precision_macro,
  recall_macro,
  matthews,
};

enum class MultiLabelMetric {
  mean_average_precision,
  f1_micro,
  f1_macro,
  precision_micro,
  recall_micro,
  exact_match,
  auroc,
};

enum class SegmentationMetric { mean_iou, pixel_accuracy, mean_accuracy };

/// Rewards are beta times how much likelier an answer is than for the reference.
enum class DpoMetric { reward_accuracy, reward_margin, chosen_reward, rejected_reward };

enum class CausalLmMetric { perplexity, bits_per_byte, accuracy };
enum class MaskedLmMetric { perplexity, accuracy };
enum class Seq2SeqLmMetric { perplexity, accuracy };

/// A metric of an evaluation, by its name in logs and in `checkpoint.best`.
struct MetricName {
  std::string_view name;
  enum class Best { lowest, highest } best;
};

/// Returns the loss, and the metrics of a list in a task's config, in the order of their enumeration.
template <config::Enumeration Metric>
std::vector<MetricName> metric_names(const std::vector<Metric>&) {
  static constexpr std::array lowest{
      "mae", "mse", "rmse", "perplexity", "bits_per_byte", "calibration_error", "rejected_reward"};
  std::vector<MetricName> names{{"loss", MetricName::Best::lowest}};
  for (const std::string_view name : config::names_of<Metric>()) {
    const bool is_lowest = std::find(lowest.begin(), lowest.end(), name) != lowest.end();
    names.push_back({name, is_lowest ? MetricName::Best::lowest : MetricName::Best::highest});
  }
  return names;
}

/// Returns the loss, and the metrics that the task of a config can tell.
template <class Task>
std::vector<MetricName> metric_names(const Task& task) {
  if constexpr (requires { task.metric_names(); })
    return task.metric_names();
  else
    return metric_names(task.metrics);
}

/// Returns k of a metric that counts a label among the k largest outputs; 0 for the others.
constexpr std::int64_t top_k_of(ClassificationMetric metric) {
  if (metric == ClassificationMetric::top2_accuracy) return 2;
  if (metric == ClassificationMetric::top3_accuracy) return 3;
  if (metric == ClassificationMetric::top5_accuracy) return 5;
  return metric == ClassificationMetric::top10_accuracy ? 10 : 0;
}

/// Returns why a metric can't be of so many classes; "" if it can.
inline std::string unfit_for_classes(ClassificationMetric metric, std::int64_t num_classes) {
  using Metric = ClassificationMetric;
  const std::string name(config::name_of(metric));
  const std::string classes = "the dataset has " + std::to_string(num_classes) + " classes";
  if (const std::int64_t k = top_k_of(metric); k >= num_classes)
    return name + " is 1 for every model, since " + classes + "; expected a metric of fewer outputs";
  if (num_classes != 2 && (metric == Metric::f1 || metric == Metric::precision || metric == Metric::recall))
    return name + " is of the second of two classes, and " + classes + "; expected " + name + "_macro";
  return "";
}

}  // namespace trainctl::task

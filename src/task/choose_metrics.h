// Which metrics an evaluation computes.
#pragma once

#include <vector>

#include "dataset/dataset.h"
#include "task/config.h"

namespace trainctl::task {

/// Returns the metrics of the config, or the usual ones of the task if it lists none.
std::vector<ClassificationMetric> chosen_metrics(const ClassificationConfig& config, const dataset::SampleSpec& spec);
std::vector<RegressionMetric> chosen_metrics(const RegressionConfig& config, const dataset::SampleSpec& spec);
std::vector<TokenClassificationMetric> chosen_metrics(const TokenClassificationConfig& config,
                                                      const dataset::SampleSpec& spec);
std::vector<CausalLmMetric> chosen_metrics(const CausalLmConfig& config, const dataset::SampleSpec& spec);
std::vector<MultiLabelMetric> chosen_metrics(const MultiLabelClassificationConfig& config,
                                             const dataset::SampleSpec& spec);
std::vector<SegmentationMetric> chosen_metrics(const SemanticSegmentationConfig& config,
                                               const dataset::SampleSpec& spec);
std::vector<DpoMetric> chosen_metrics(const DpoConfig& config, const dataset::SampleSpec& spec);
std::vector<MaskedLmMetric> chosen_metrics(const MaskedLmConfig& config, const dataset::SampleSpec& spec);
std::vector<Seq2SeqLmMetric> chosen_metrics(const Seq2SeqLmConfig& config, const dataset::SampleSpec& spec);

}  // namespace trainctl::task

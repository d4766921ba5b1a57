// Tasks whose targets are sets of labels, or a class for each pixel. Part of task/config.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "task/metric_names.h"
#include "task/traits.h"

namespace trainctl::task {

/// Several labels for each sample, or none; the loss is binary cross-entropy, the mean over samples and labels.
struct MultiLabelClassificationConfig {
  static constexpr std::string_view kind = "multi_label_classification";
  double threshold = 0.5;
  std::vector<double> pos_weight{};
  std::vector<MultiLabelMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = MultiLabelClassificationConfig;
    return config::Fields{
        field<&C::threshold>("A sample has a label from this probability on, for metrics and predictions; the loss and "
                             "mean_average_precision don't depend on it.",
                             config::fraction),
        field<&C::pos_weight>("How much each class's samples with the label count in the loss, against those without "
                              "(PyTorch's BCEWithLogitsLoss); empty: as much.",
                              config::positive),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{.output = model::Output::per_sample, .has_classes = true, .takes_teacher = false};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

/// A class for each pixel; the loss is cross-entropy, the mean over the pixels that have a class.
struct SemanticSegmentationConfig {
  static constexpr std::string_view kind = "semantic_segmentation";
  std::vector<double> class_weights{};
  std::vector<SegmentationMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = SemanticSegmentationConfig;
    return config::Fields{
        field<&C::class_weights>("The weight of each class's pixels in the loss, in the order of the classes; empty: "
                                 "all count as one. The loss is divided by the weights of a step's pixels, as "
                                 "PyTorch's is.",
                                 config::positive),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{.output = model::Output::per_pixel, .has_classes = true, .takes_teacher = true};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

}  // namespace trainctl::task

// `metrics:`: metrics of evaluations beside those of the task. Without LibTorch.
#pragma once

#include <memory>
#include <string_view>

#include "config/plugged.h"
#include "config/traits.h"
#include "task/metric_names.h"

namespace trainctl::task {

class ExtraMetric;

/// Facts of a kind of metric.
struct MetricTraits {
  config::Stated<MetricName::Best> best;
  config::Stated<bool> needs_classes;  // one for each sample or pixel: answers are logits [B, C, ...]
};

/// The mean squared distance between the probabilities of all classes and the label: 0 to 2
/// (https://doi.org/10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2).
struct BrierScoreConfig {
  static constexpr std::string_view kind = "brier_score";
  static constexpr MetricTraits traits{.best = MetricName::Best::lowest, .needs_classes = true};
  static constexpr auto fields() { return config::Fields{}; }
};

/// What other folders ask the config struct of a plug-in's metric. A member's first parameter is that struct.
struct MetricInterface {
  MetricTraits traits;
  std::unique_ptr<ExtraMetric> (*build)(const void* config);
};

/// A metric of a plug-in, in place of a config struct of ours.
class PluggedMetricConfig : public config::Plugged<MetricInterface> {
 public:
  using Plugged::Plugged;
  // config::traits_of() tells those of the plug-in.
  static constexpr MetricTraits traits{.best = MetricName::Best::highest, .needs_classes = false};
};

/// Returns what a config struct of a metric says, as an interface. `build(const Config&)`, which returns a
/// std::unique_ptr<ExtraMetric>, is found in the namespace of the struct.
template <class Config>
MetricInterface metric_interface() {
  static_assert(config::WithTraits<Config, MetricTraits>,
                "a metric's config has `static constexpr MetricTraits traits{...}`");
  return {.traits = Config::traits, .build = [](const void* config) -> std::unique_ptr<ExtraMetric> {
            return build(config::plugged_config<Config>(config));
          }};
}

using MetricConfig = config::OneOf<BrierScoreConfig, PluggedMetricConfig>;
static_assert(config::kHaveTraits<MetricConfig, MetricTraits>);

}  // namespace trainctl::task

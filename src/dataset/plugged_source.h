// Datasets and transforms of plug-ins. Part of dataset/config.h; without LibTorch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "config/plugged.h"
#include "dataset/facts.h"

namespace trainctl::dataset {

struct BatchSpec;
struct BatchSpecHints;
struct LoaderOptions;
struct SampleSpec;
struct Sources;

/// What other folders ask the config struct of a plug-in's dataset. A member's first parameter is that struct.
struct SourceInterface {
  DatasetFacts (*facts)(const void* config);
  Sources (*build)(const void* config, const LoaderOptions& options);
  BatchSpec (*batch_spec)(const void* config, const BatchSpecHints& hints);
  /// Keys are below the dataset's.
  std::vector<InputProblem> (*missing_inputs)(const void* config);
};

/// A dataset of a plug-in, in place of a config struct of ours.
class PluggedSourceConfig : public config::Plugged<SourceInterface> {
 public:
  using Plugged::Plugged;
  DatasetFacts facts() const { return interface().facts(config()); }
};

/// Returns what a config struct of a dataset says, as an interface. `build(const Config&, const LoaderOptions&)` and
/// `batch_spec_of(const Config&, const BatchSpecHints&)` are found in the namespace of the struct.
template <class Config>
SourceInterface source_interface() {
  static_assert(config::WithFacts<Config, DatasetFacts>, "a dataset's config has `DatasetFacts facts() const`");
  return {.facts = [](const void* config) { return config::plugged_config<Config>(config).facts(); },
          .build = [](const void* config,
                      const LoaderOptions& options) { return build(config::plugged_config<Config>(config), options); },
          .batch_spec =
              [](const void* config, const BatchSpecHints& hints) {
                return batch_spec_of(config::plugged_config<Config>(config), hints);
              },
          .missing_inputs =
              [](const void* config) {
                if constexpr (requires(const Config& own) { own.missing_inputs(); })
                  return config::plugged_config<Config>(config).missing_inputs();
                return std::vector<InputProblem>();
              }};
}

}  // namespace trainctl::dataset

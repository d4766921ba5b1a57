// Update rules of plug-ins. Part of optimizer/rule_config.h; without LibTorch.
#pragma once

#include <memory>
#include <vector>

#include "config/plugged.h"
#include "optimizer/rule_traits.h"

namespace trainctl::optimizer {

class Optimizer;
struct ParameterGroup;

/// What other folders ask the config struct of a plug-in's update rule. A member's first parameter is that struct.
struct RuleInterface {
  OptimizerTraits traits;
  OptimizerFacts (*facts)(const void* config);
  std::unique_ptr<Optimizer> (*build)(const void* config, std::vector<ParameterGroup> groups);
};

/// An update rule of a plug-in, in place of a config struct of ours.
class PluggedRuleConfig : public config::Plugged<RuleInterface> {
 public:
  using Plugged::Plugged;
  // config::traits_of() tells those of the plug-in.
  static constexpr OptimizerTraits traits{.is_elementwise = false,
                                          .updates_shards = false,
                                          .normalizes_elements = false,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 1e-3};
  OptimizerFacts facts() const { return interface().facts(config()); }
};

/// Returns what a config struct of an update rule says, as an interface. `build(const Config&, ParameterGroups)` is
/// found in the namespace of the struct.
template <class Config>
RuleInterface rule_interface() {
  static_assert(config::WithTraits<Config, OptimizerTraits>,
                "an update rule's config has `static constexpr OptimizerTraits traits{...}`");
  static_assert(config::WithFacts<Config, OptimizerFacts>,
                "an update rule's config has `OptimizerFacts facts() const`");
  return {.traits = Config::traits,
          .facts = [](const void* config) { return config::plugged_config<Config>(config).facts(); },
          .build = [](const void* config, std::vector<ParameterGroup> groups) -> std::unique_ptr<Optimizer> {
            return build(config::plugged_config<Config>(config), std::move(groups));
          }};
}

}  // namespace trainctl::optimizer

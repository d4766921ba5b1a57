// Networks of plug-ins. Part of model/config.h; without LibTorch.
#pragma once

#include <memory>

#include "config/plugged.h"
#include "model/traits.h"

namespace trainctl::model {

class Model;
struct InputSpec;

/// What other folders ask the config struct of a plug-in's network. A member's first parameter is that struct.
struct NetworkInterface {
  ModelTraits traits;
  OwnSizes (*sizes)(const void* config);
  SplitSizes (*split_sizes)(const void* config);
  BrokenRules (*broken_rules)(const void* config, const Surroundings& around);
  std::shared_ptr<void> (*starter)();
  std::unique_ptr<Model> (*build)(const void* config, const InputSpec& input);
};

/// A network of a plug-in, in place of a config struct of ours.
class PluggedNetworkConfig : public config::Plugged<NetworkInterface> {
 public:
  using Plugged::Plugged;
  // What no plug-in's network is: in transformers or timm. Else config::traits_of() tells its traits.
  static constexpr ModelTraits traits{.input = Input::any,
                                      .outputs = Outputs{},
                                      .padding = Padding::none,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = false,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};

  OwnSizes sizes() const { return interface().sizes(config()); }
  SplitSizes split_sizes() const { return interface().split_sizes(config()); }
  BrokenRules broken_rules(const Surroundings& around) const { return interface().broken_rules(config(), around); }
  void become_starter() { replace(interface().starter()); }
};

/// Returns what a config struct of a network says, as an interface. `build(const Config&, const InputSpec&)` is found
/// in the namespace of the struct.
template <class Config>
NetworkInterface network_interface() {
  static_assert(states_its_traits<Config>());
  static_assert(Config::traits.transformers_type.value.empty() && !Config::traits.is_in_timm,
                "a network of a plug-in is neither in transformers nor in timm");
  return {.traits = Config::traits,
          .sizes = [](const void* config) { return config::plugged_config<Config>(config).sizes(); },
          .split_sizes = [](const void* config) { return config::plugged_config<Config>(config).split_sizes(); },
          .broken_rules =
              [](const void* config, const Surroundings& around) {
                return config::plugged_config<Config>(config).broken_rules(around);
              },
          .starter = []() -> std::shared_ptr<void> { return std::make_shared<Config>(Config::starter()); },
          .build = [](const void* config, const InputSpec& input) -> std::unique_ptr<Model> {
            return build(config::plugged_config<Config>(config), input);
          }};
}

}  // namespace trainctl::model

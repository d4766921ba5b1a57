// `model: {kind: torchscript}`. Part of model/config.h.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"
#include "model/traits.h"

namespace trainctl::model {

/// What a scripted network reads.
enum class ScriptInput { numbers, tokens };

/// A network that PyTorch wrote with torch.jit.script(module).save(path).
struct TorchScriptConfig {
  static constexpr std::string_view kind = "torchscript";
  std::string path;
  ScriptInput input = ScriptInput::numbers;
  config::AutoOr<std::int64_t> num_classes;

  static constexpr auto fields() {
    using config::field;
    using C = TorchScriptConfig;
    return config::Fields{
        field<&C::path>("File of torch.jit.script(module).save(path); its weights are the first ones.",
                        config::required & config::non_empty),
        field<&C::input>(
            "What forward() takes: `numbers` are images [B, C, H, W] or rows [B, columns]; `tokens` are "
            "ids [B, T], and the mask of what is no padding, int64 [B, T], where it has a second argument."),
        field<&C::num_classes>("Outputs; `auto` takes the dataset's.", config::at_least(1)),
    };
  }

  static constexpr ModelTraits traits{.input = Input::any,
                                      .outputs = Outputs{Output::per_sample, Output::per_token, Output::per_pixel},
                                      .padding = Padding::in_classification,
                                      .has_token_types = false,
                                      .has_kv_cache = false,
                                      .is_recurrent = false,
                                      .has_convolutions = true,
                                      .embedding = "",
                                      .tied_output = "",
                                      .classifier = "",
                                      .transformers_type = "",
                                      .transformers_prefix = "",
                                      .has_transformers_names = false,
                                      .is_in_timm = false};
  bool takes_tokens() const { return input == ScriptInput::tokens; }
  SplitSizes split_sizes() const { return {}; }
  OwnSizes sizes() const { return only_classes(num_classes); }
  BrokenRules broken_rules(const Surroundings& around) const {
    if (traits.outputs.value.contains(around.output)) return {};
    return {{{"model.kind", "task.kind"},
             "a scripted network gives classes or numbers, and task " + std::string(around.task) +
                 " needs rows over the vocabulary"}};
  }
  static TorchScriptConfig starter() { return {.path = "net.pt"}; }
};

}  // namespace trainctl::model

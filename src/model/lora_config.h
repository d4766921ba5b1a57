// `model.lora:`. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace trainctl::model {

/// Low-rank adapters (https://arxiv.org/abs/2106.09685) beside frozen weights.
struct LoraConfig {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;
  std::vector<std::string> target_modules{};
  std::optional<std::vector<std::string>> modules_to_save{};
  std::optional<std::string> init_from{};

  static constexpr auto fields() {
    using config::field;
    using C = LoraConfig;
    return config::Fields{
        field<&C::rank>("Rank of each adapter.", config::between(1, 65'536)),
        field<&C::alpha>("Adapters are scaled by alpha / rank.", config::positive),
        field<&C::dropout>("Dropout of an adapter's input.", config::below_one),
        field<&C::target_modules>(
            "Linear layers that get an adapter, by name: `query` is every layer whose name is that or "
            "ends in `.query`; `*` stands for any characters, `?` for one. Required without init_from.",
            config::non_empty),
        field<&C::modules_to_save>(
            "Other layers or parameters that are trained, by the same kind of name; null means the "
            "classification head (classifier, pooler, head, fc)."),
        field<&C::init_from>("Adapters to start from: a directory of peft, beside the weights of model.init_from. Its "
                             "adapter_config.json gives the keys of lora that the file leaves out.",
                             config::non_empty),
    };
  }
};

}  // namespace trainctl::model

// The `model_card:` section: what is said of a model that leaves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace trainctl::exporters {

struct ModelCardConfig {
  std::optional<std::string> license;
  std::string description;
  std::vector<std::string> tags;

  static constexpr auto fields() {
    using config::field;
    using C = ModelCardConfig;
    return config::Fields{
        field<&C::license>(
            "License of what is exported, as hubs list them (`apache-2.0`, `mit`, `cc-by-4.0`); null says "
            "nothing about it.",
            config::non_empty),
        field<&C::description>("A sentence or more for the model card."),
        field<&C::tags>("Words under which a hub should list it."),
    };
  }
};

}  // namespace trainctl::exporters

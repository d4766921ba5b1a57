// `model.mup:`. Part of model/config.h.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl::model {

/// Maximal update parametrization (muP, https://arxiv.org/abs/2203.03466). First values and learning rates change with
/// the network's width, so that one learning rate is best at every width.
struct MupConfig {
  std::int64_t base_width = 0;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&MupConfig::base_width>(
            "Width of the small network at which hyperparameters were found; there muP changes nothing. It is a value "
            "of hidden_size, of mlp's first hidden layer, or of widen_factor.",
            config::required & config::at_least(1)),
    };
  }
};

}  // namespace trainctl::model

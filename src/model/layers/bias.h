// Whether a layer adds a bias.
#pragma once

namespace trainctl::model {

/// Whether a layer adds a learned bias.
enum class Bias { none, learned };

}  // namespace trainctl::model

// The next token, drawn from logits. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace trainctl::inference {

struct Sampling {
  double temperature = 1;  // divides the logits; 0 takes the likeliest token
  std::int64_t top_k = 0;  // only this many of the likeliest tokens; 0: all
  double top_p = 1;        // of those, the fewest of the likeliest whose probabilities reach this together
};

/// `uniform` in [0, 1) decides which of the tokens left; among equal logits the lower id counts as likelier. Logits
/// that aren't numbers are never drawn; an Error where none is left.
std::int64_t sample(std::span<const float> logits, const Sampling& sampling, double uniform);

}  // namespace trainctl::inference

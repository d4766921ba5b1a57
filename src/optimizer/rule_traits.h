// What other folders must know of an update rule. Part of optimizer/rule_config.h.
#pragma once

#include <vector>

#include "config/traits.h"

namespace trainctl::optimizer {

/// What other folders must know of an update rule.
struct OptimizerTraits {
  config::Stated<bool> is_elementwise;  // an element's update needs no other element
  config::Stated<bool> updates_shards;  // of ZeRO's: elementwise, or by gathering the gradients that it needs whole
  config::Stated<bool> normalizes_elements;  // an update has about the learning rate's size, whatever the gradient's
  config::Stated<bool> averages_weights;  // by itself: evaluations and checkpoints take the averages (Optimizer::eval)
  config::Stated<bool> reads_overflow_flag;  // on the host, which waits for the device; with `fused` where there is one
  config::Stated<double> starter_lr;         // learning rate that trains a small network
};

/// What an update rule's config says of its values.
struct OptimizerFacts {
  config::Stated<bool> could_fuse;  // `fused` is false
  std::vector<config::BrokenRule> broken_rules{};
};

}  // namespace trainctl::optimizer

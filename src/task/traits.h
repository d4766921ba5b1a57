// What other folders must know of a task's kind. Part of task/config.h; without LibTorch.
#pragma once

#include <string_view>

#include "config/traits.h"
#include "model/traits.h"

namespace trainctl::task {

/// Facts of a kind of task.
struct TaskTraits {
  config::Stated<model::Output> output;  // of the network, which the loss is computed from
  config::Stated<bool> has_classes;      // targets are classes, of samples or of tokens
  config::Stated<bool> takes_teacher;    // its loss compares probabilities, which a teacher may give
};

/// What a task's rules may look at in the rest of the experiment.
struct Surroundings {
  std::string_view dataset;  // its kind
  bool has_images;
};

namespace help {
inline constexpr std::string_view metrics =
    "What an evaluation tells beside the loss, in this order; empty: the usual ones (docs/metrics.md). A metric that "
    "early stopping, a schedule or checkpoint.best watches is told, too.";
}

}  // namespace trainctl::task

// Micro-batches of the usual kinds.
#pragma once

#include <utility>

#include "task/task.h"
#include "task/tasks.h"

namespace trainctl::task {

/// A micro-batch whose samples have a target each.
inline MicroBatch whole_samples(dataset::Batch batch) {
  MicroBatch prepared{.batch = std::move(batch)};
  prepared.input = model_input(prepared.batch);
  prepared.count = prepared.batch.weight.value_or(static_cast<double>(prepared.batch.size()));
  return prepared;
}

/// A micro-batch of which some tokens have a target.
inline MicroBatch target_tokens(dataset::Batch batch) {
  MicroBatch prepared = whole_samples(std::move(batch));
  prepared.count = static_cast<double>(num_targets(prepared.batch));
  return prepared;
}

}  // namespace trainctl::task

// Snapshots to save in the tests of checkpoint/.
#pragma once

#include <ATen/ops/full.h>

#include "checkpoint/checkpoint.h"

namespace trainctl::testing {

/// Weights, a slot of the optimizer and a value that all tell the step.
inline Snapshot snapshot_of(std::int64_t step, std::int64_t size = 1000) {
  Snapshot snapshot;
  snapshot.tensors["model.fc.weight"] = at::full({size}, static_cast<double>(step));
  snapshot.tensors["optimizer.momentum.fc.weight"] = at::full({size}, static_cast<double>(-step));
  snapshot.values["step"] = step;
  return snapshot;
}

inline CheckpointInfo info_of(std::int64_t step, std::map<std::string, double> metrics = {}) {
  return {.step = step, .config = {{"seed", "1"}}, .metrics = std::move(metrics), .data_fingerprint = "abc"};
}

inline bool tells(const Loaded& loaded, std::int64_t step) {
  const auto& tensors = loaded.snapshot.tensors;
  const auto all = [&](const char* name, double value) { return tensors.at(name).eq(value).all().item<bool>(); };
  return loaded.info.step == step && std::get<std::int64_t>(loaded.snapshot.values.at("step")) == step &&
         all("model.fc.weight", static_cast<double>(step)) &&
         all("optimizer.momentum.fc.weight", static_cast<double>(-step));
}

}  // namespace trainctl::testing

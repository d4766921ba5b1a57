// Networks beside the trained one: a teacher, a reference.
#pragma once

#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "model/model.h"
#include "task/task.h"
#include "tracking/event.h"
#include "train/run/run.h"

namespace trainctl::train {

/// Where a frozen network computes, and on what.
struct FrozenPlace {
  c10::Device device;
  bool channels_last = false;
  std::uint64_t seed = 0;  // of the student's first values, which layers without weights in the file have too
  const DryRunSetup* dry_run = nullptr;  // null: files are read
  std::vector<tracking::Notice>& notices;
};

/// Returns the teacher of experiment.distillation and the reference of task dpo, with their weights; null where there
/// is none. `student`: the trained network. Throws Error if weights don't fit, or if a teacher has other classes or
/// another vocabulary than the student.
task::Companions load_companions(const experiment::Experiment& experiment, model::Model& student,
                                 const dataset::Datasets& data, const FrozenPlace& place);

}  // namespace trainctl::train

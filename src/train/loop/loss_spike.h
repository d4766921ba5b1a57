// A step whose loss stands out: the run names its samples, and may go back to the last checkpoint without them.
#pragma once

#include <filesystem>

#include "tracking/event.h"
#include "train/loop/checkpointer.h"
#include "train/loop/step.h"

namespace trainctl::train {

enum class AfterLossSpike { go_on, roll_back };

/// Applies `train.loss_spikes` to the step that `result` is of; all ranks call it. Waits for the device. The samples of
/// a spike are listed in loss_spikes.jsonl of the run directory.
[[nodiscard]] AfterLossSpike handle_loss_spike(Run& run, const StepResult& result, tracking::Sink& sink,
                                               const std::filesystem::path& run_directory, Checkpointer& checkpointer);

}  // namespace trainctl::train

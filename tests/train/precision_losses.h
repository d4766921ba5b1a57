// What a small network's losses are in a precision.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "small_run.h"
#include "train/loop/trainer.h"
#include "train/run/restore.h"

namespace trainctl::testing {

/// Returns the mean losses of the windows of a short run, which leaves checkpoints of steps 20 and 40.
inline std::vector<double> precision_losses(experiment::Experiment experiment, const std::filesystem::path& directory,
                                            const std::optional<std::filesystem::path>& resume_from = {}) {
  experiment.model.network = model::CnnConfig{.channels = {8, 16}, .batch_norm = true, .hidden = 32};
  experiment.train.steps = 40;
  experiment.train.log_every = 10;
  experiment.checkpoint.every = 20;
  experiment.checkpoint.keep_last = 5;
  const std::unique_ptr<train::Run> run = build_run(experiment);
  EventLog log;
  const train::StopSignal stop;
  if (resume_from) train::restore(*run, *resume_from, {}, log);
  train::Trainer(*run, log, stop, {.run_directory = directory, .config = {}}).run();
  std::vector<double> all;
  for (const tracking::StepLogged& record : log.all<tracking::StepLogged>()) all.push_back(record.loss.value());
  return all;
}

}  // namespace trainctl::testing

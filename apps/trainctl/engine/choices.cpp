#include "choices.h"

#include <optional>
#include <utility>

#include "core/local_ranks.h"
#include "core/text.h"
#include "distributed/config.h"
#include "plan/choose.h"
#include "plan/memory/kernel_workspaces.h"
#include "plan/prediction.h"
#include "plan/time/device_rates.h"
#include "plan/trial.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "train/run/replicas.h"

namespace trainctl::engine {
namespace {

/// Returns the values that a run was given at first, if it has one for each `auto`.
std::optional<experiment::AutoValues> kept(const experiment::Experiment& experiment,
                                           const experiment::AutoValues& before) {
  experiment::AutoValues values;
  if (experiment::chooses_batch_size(experiment)) {
    if (!before.batch_size) return std::nullopt;
    values.batch_size = before.batch_size;
  }
  if (experiment::chooses_recomputation(experiment)) {
    if (!before.blocks) return std::nullopt;
    values.blocks = before.blocks;
  }
  return values;
}

std::string text_of(const experiment::AutoValues& values) {
  std::string text;
  if (values.batch_size) text = "dataset.batch_size=" + std::to_string(*values.batch_size);
  if (values.blocks)
    text += (text.empty() ? "" : ", ") + ("activation_checkpointing.kind=" + std::string(values.blocks->kind()));
  return text;
}

/// Tries the chosen values by real steps. If they run out of memory, tries the next smaller choice, until one fits.
experiment::AutoValues tried_values(const experiment::Experiment& experiment, plan::Choices choices,
                                    const plan::TrialPlace& place, std::vector<tracking::Notice>& notices) {
  std::string told = choices.why;
  for (;;) {
    const plan::Trial trial = plan::try_steps(experiment::with_values(experiment, choices.values), place);
    const std::string seconds = ", in a trial of " + core::format_duration(trial.seconds);
    if (trial.outcome == plan::TrialOutcome::fits)
      told += "; two steps took " + core::format_bytes(static_cast<double>(trial.peak_bytes)) + seconds;
    notices.push_back({tracking::Level::info, told});
    if (trial.outcome != plan::TrialOutcome::out_of_memory) break;
    std::optional<plan::Choices> smaller = plan::next_smaller(experiment, choices);
    const std::string failed = choices.what + " ran out of memory at " +
                               core::format_bytes(static_cast<double>(trial.peak_bytes)) + seconds + " (" +
                               trial.failure + ")";
    if (!smaller) {
      notices.push_back({tracking::Level::warning, failed + ", and auto has nothing smaller"});
      break;
    }
    told = failed + ": auto is " + smaller->what;
    choices = *std::move(smaller);
  }
  return choices.values;
}

}  // namespace

Ranks ranks_of(const experiment::Experiment& experiment, const comm::Launch* launch) {
  const distributed::DistributedTraits& traits = config::traits_of(experiment.distributed.how);
  if (traits.ranks_are_threads) {
    const std::int64_t count = train::num_replicas(experiment.distributed, experiment.device);
    return {.world = count, .local_world = count};
  }
  if (launch == nullptr || traits.layout == distributed::Layout::alone) return {};
  return {.world = launch->world_size, .local_world = launch->local_world_size};
}

experiment::AutoValues choose_values(const experiment::Experiment& experiment, const Ranks& ranks,
                                     const experiment::AutoValues& before, std::vector<tracking::Notice>& notices) {
  if (!plan::has_choices(experiment)) return {};
  if (const std::optional<experiment::AutoValues> values = kept(experiment, before)) {
    notices.push_back({tracking::Level::info, "auto stays what it was when the run began: " + text_of(*values)});
    return *values;
  }
  runtime::install_host_allocator(experiment.device);
  const c10::Device device = runtime::open_device(experiment.device, {.rank = 0, .world_size = ranks.local_world});
  plan::KernelWorkspaces workspaces(plan::MeasuredRates::default_directory());
  const plan::MemoryLimit limit = plan::memory_of(experiment, device, ranks.local_world);
  plan::Choices choices = plan::choose(
      experiment, {.world = ranks.world, .device = plan::planned(device), .workspaces = &workspaces}, limit);
  return tried_values(experiment, std::move(choices),
                      {.device = device, .world = ranks.world, .local_world = ranks.local_world, .limit = limit},
                      notices);
}

experiment::LoadedExperiment with_choices(const experiment::LoadedExperiment& loaded,
                                          std::vector<tracking::Notice>& notices) {
  if (!plan::has_choices(loaded.experiment)) return loaded;
  const std::optional<comm::Launch> launch = comm::read_launch(comm::process_environment);
  const Ranks ranks = ranks_of(loaded.experiment, launch ? &*launch : nullptr);
  return experiment::with_values(loaded, choose_values(loaded.experiment, ranks, {}, notices));
}

experiment::LoadedExperiment without_choices(const experiment::LoadedExperiment& loaded) {
  if (!plan::has_choices(loaded.experiment)) return loaded;
  experiment::LoadedExperiment plain = loaded;
  plain.experiment = plan::without_choices(loaded.experiment);
  return plain;
}

}  // namespace trainctl::engine

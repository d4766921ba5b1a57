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

/// What a run that goes on was given at first; empty where it doesn't say.
std::vector<std::string> kept(const experiment::Experiment& experiment,
                              const std::map<std::string, std::string>& before) {
  std::vector<std::string> lines;
  const auto keep = [&](const char* key) {
    const auto found = before.find(key);
    if (found == before.end() || found->second == "auto") return false;
    lines.push_back(std::string(key) + "=" + found->second);
    return true;
  };
  if (experiment.dataset.batch_size.is_auto() && !keep("dataset.batch_size")) return {};
  const bool chooses_recomputation =
      experiment.activation_checkpointing.blocks.get_if<activation_checkpointing::AutoCheckpointingConfig>() != nullptr;
  if (chooses_recomputation && !keep("activation_checkpointing.kind")) return {};
  return lines;
}

/// Steps in earnest decide: what runs out of memory in them gives way to what takes less, until nothing does.
std::vector<std::string> tried_settings(const experiment::LoadedExperiment& loaded, plan::Choices choices,
                                        const plan::TrialPlace& place, std::vector<tracking::Notice>& notices) {
  std::string told = choices.why;
  for (;;) {
    const plan::Trial trial =
        plan::try_steps(experiment::with_settings(loaded, assignments(choices.settings)).experiment, place);
    const std::string seconds = ", in a trial of " + core::format_duration(trial.seconds);
    if (trial.outcome == plan::TrialOutcome::fits)
      told += "; two steps took " + core::format_bytes(static_cast<double>(trial.peak_bytes)) + seconds;
    notices.push_back({tracking::Level::info, told});
    if (trial.outcome != plan::TrialOutcome::out_of_memory) break;
    std::optional<plan::Choices> smaller = plan::next_smaller(loaded.experiment, choices);
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
  return assignments(choices.settings);
}

}  // namespace

std::vector<std::string> assignments(const std::vector<plan::Setting>& settings) {
  std::vector<std::string> lines;
  for (const plan::Setting& setting : settings) lines.push_back(setting.path + "=" + setting.value);
  return lines;
}

Ranks ranks_of(const experiment::Experiment& experiment, const comm::Launch* launch) {
  const distributed::DistributedTraits& traits = config::traits_of(experiment.distributed.how);
  if (traits.ranks_are_threads) {
    const std::int64_t count = train::num_replicas(experiment.distributed, experiment.device);
    return {.world = count, .local_world = count};
  }
  if (launch == nullptr || traits.layout == distributed::Layout::alone) return {};
  return {.world = launch->world_size, .local_world = launch->local_world_size};
}

std::vector<std::string> choice_settings(const experiment::LoadedExperiment& loaded, const Ranks& ranks,
                                         const std::map<std::string, std::string>& before,
                                         std::vector<tracking::Notice>& notices) {
  const experiment::Experiment& experiment = loaded.experiment;
  if (!plan::has_choices(experiment)) return {};
  if (std::vector<std::string> lines = kept(experiment, before); !lines.empty()) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
    notices.push_back({tracking::Level::info, "auto stays what it was when the run began: " + text});
    return lines;
  }
  runtime::install_host_allocator(experiment.device);
  const c10::Device device = runtime::open_device(experiment.device, {.rank = 0, .world_size = ranks.local_world});
  plan::KernelWorkspaces workspaces(plan::MeasuredRates::default_directory());
  const plan::MemoryLimit limit = plan::memory_of(experiment, device, ranks.local_world);
  plan::Choices choices = plan::choose(
      experiment, {.world = ranks.world, .device = plan::planned(device), .workspaces = &workspaces}, limit);
  return tried_settings(loaded, std::move(choices),
                        {.device = device, .world = ranks.world, .local_world = ranks.local_world, .limit = limit},
                        notices);
}

experiment::LoadedExperiment with_choices(const experiment::LoadedExperiment& loaded,
                                          std::vector<tracking::Notice>& notices) {
  if (!plan::has_choices(loaded.experiment)) return loaded;
  const std::optional<comm::Launch> launch = comm::read_launch(comm::process_environment);
  const Ranks ranks = ranks_of(loaded.experiment, launch ? &*launch : nullptr);
  return experiment::with_settings(loaded, choice_settings(loaded, ranks, {}, notices));
}

experiment::LoadedExperiment without_choices(const experiment::LoadedExperiment& loaded) {
  if (!plan::has_choices(loaded.experiment)) return loaded;
  experiment::LoadedExperiment plain = loaded;
  plain.experiment = plan::without_choices(loaded.experiment);
  return plain;
}

}  // namespace trainctl::engine

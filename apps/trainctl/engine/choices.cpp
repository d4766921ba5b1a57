#include "choices.h"

#include "core/local_ranks.h"
#include "distributed/config.h"
#include "plan/choose.h"
#include "plan/prediction.h"
#include "runtime/device.h"
#include "runtime/memory.h"
#include "train/replicas.h"

namespace trainctl {
namespace {

/// What a run that goes on was given at first; empty where it doesn't say.
std::vector<std::string> kept(const Experiment& experiment, const std::map<std::string, std::string>& before) {
  std::vector<std::string> lines;
  const auto keep = [&](const char* key) {
    const auto found = before.find(key);
    if (found == before.end() || found->second == "auto") return false;
    lines.push_back(std::string(key) + "=" + found->second);
    return true;
  };
  if (experiment.dataset.batch_size.is_auto() && !keep("dataset.batch_size")) return {};
  const bool chooses_recomputation =
      experiment.activation_checkpointing.blocks.get_if<AutoRecomputationConfig>() != nullptr;
  if (chooses_recomputation && !keep("activation_checkpointing.kind")) return {};
  return lines;
}

}  // namespace

std::vector<std::string> assignments(const std::vector<Setting>& settings) {
  std::vector<std::string> lines;
  for (const Setting& setting : settings) lines.push_back(setting.path + "=" + setting.value);
  return lines;
}

Ranks ranks_of(const Experiment& experiment, const Launch* launch) {
  if (const auto* replicas = experiment.distributed.how.get_if<DataParallelConfig>()) {
    const std::int64_t count = num_replicas(*replicas, experiment.device);
    return {.world = count, .local_world = count};
  }
  if (launch == nullptr || experiment.distributed.how.get_if<NotDistributedConfig>() != nullptr) return {};
  return {.world = launch->world_size, .local_world = launch->local_world_size};
}

std::vector<std::string> choice_settings(const Experiment& experiment, const Ranks& ranks,
                                         const std::map<std::string, std::string>& before,
                                         std::vector<Notice>& notices) {
  if (!has_choices(experiment)) return {};
  if (std::vector<std::string> lines = kept(experiment, before); !lines.empty()) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
    notices.push_back({Level::info, "auto stays what it was when the run began: " + text});
    return lines;
  }
  install_host_allocator(experiment.device.cache_memory ? HostMemory::cached : HostMemory::system);
  const c10::Device device = open_device(experiment.device, {.rank = 0, .world_size = ranks.local_world});
  const Choices choices = choose(experiment, {.world = ranks.world, .device = planned(device)},
                                 memory_of(experiment, device, ranks.local_world));
  notices.push_back({Level::info, choices.why});
  return assignments(choices.settings);
}

LoadedExperiment with_choices(const LoadedExperiment& loaded, std::vector<Notice>& notices) {
  if (!has_choices(loaded.experiment)) return loaded;
  const std::optional<Launch> launch = read_launch(process_environment);
  const Ranks ranks = ranks_of(loaded.experiment, launch ? &*launch : nullptr);
  return with_settings(loaded, choice_settings(loaded.experiment, ranks, {}, notices));
}

LoadedExperiment without_choices(const LoadedExperiment& loaded) {
  if (!has_choices(loaded.experiment)) return loaded;
  LoadedExperiment plain = loaded;
  plain.experiment = without_choices(loaded.experiment);
  return plain;
}

}  // namespace trainctl

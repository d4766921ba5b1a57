#include "plan/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/units.h"

namespace trainctl::plan {
namespace {

constexpr std::int64_t kMostBatch = 1 << 20;
constexpr int kMostTries = 24;           // dry runs
constexpr double kSurelyTooMuch = 1.02;  // of the room: how far two peaks may miss a third's, which needn't be tried

std::int64_t peak_of(const experiment::Experiment& experiment, const DryRunOptions& options) {
  DryRunOptions plain = options;
  plain.around_step = {};
  return dry_run_step(experiment, plain).at_peak.total();
}

experiment::Experiment with_batch(const experiment::Experiment& experiment, std::int64_t batch_size) {
  experiment::Experiment changed = experiment;
  changed.dataset.batch_size = batch_size;
  return changed;
}

/// Tries smaller and more micro-batches; returns the largest size that divides a rank's samples of a step, and fits.
std::optional<FitSuggestion> smaller_batch(const experiment::Experiment& experiment, const DryRunOptions& options,
                                           const MemoryLimit& limit) {
  const std::int64_t samples = experiment.dataset.samples_per_batch() * experiment.accumulation.steps;
  for (std::int64_t steps = experiment.accumulation.steps + 1; steps <= samples; ++steps) {
    if (samples % steps != 0) continue;
    experiment::Experiment changed = with_batch(experiment, samples / steps);
    changed.accumulation.steps = steps;
    const std::int64_t peak = peak_of(changed, options);
    if (peak > limit.for_tensors()) {
      // Nothing much is left to be saved: what remains isn't the batch's.
      if (samples / steps == 1) return std::nullopt;
      continue;
    }
    return FitSuggestion{.settings = {{"dataset.batch_size", std::to_string(samples / steps)},
                                      {"accumulation.steps", std::to_string(steps)}},
                         .why = "the same samples in a step, in smaller pieces",
                         .peak_bytes = peak};
  }
  return std::nullopt;
}

struct Candidate {
  std::vector<Setting> settings;
  std::string why;
  std::function<void(experiment::Experiment&)> apply;
};

template <class Kind>
Candidate recomputing(std::string why) {
  return {.settings = {{"activation_checkpointing.kind", std::string(Kind::kind)}},
          .why = std::move(why),
          .apply = [](experiment::Experiment& experiment) { experiment.activation_checkpointing.blocks = Kind{}; }};
}

std::vector<Candidate> recomputations(const experiment::Experiment& experiment) {
  if (experiment.activation_checkpointing.blocks.get_if<activation_checkpointing::FullCheckpointingConfig>() != nullptr)
    return {};
  return {
      recomputing<activation_checkpointing::SelectiveOpConfig>("cheap operators are recomputed in the backward pass"),
      recomputing<activation_checkpointing::FullCheckpointingConfig>(
          "each block is recomputed in the backward pass, a third more work")};
}

std::vector<Candidate> checkpoints_at_once(const experiment::Experiment& experiment, const DryRunOptions& options) {
  if (options.device == PlannedDevice::cuda || !experiment.checkpoint.async) return {};
  return {{.settings = {{"checkpoint.async", "false"}},
           .why = "training waits while a checkpoint is written, and has no copy of it",
           .apply = [](experiment::Experiment& changed) { changed.checkpoint.async = false; }}};
}

Candidate sharding(std::int64_t stage) {
  static constexpr std::string_view kParts[] = {"the optimizer's state", "gradients too", "parameters too"};
  return {.settings = {{"distributed.kind", "zero"}, {"distributed.stage", std::to_string(stage)}},
          .why = "each rank keeps its part of " + std::string(kParts[stage - 1]),
          .apply = [stage](experiment::Experiment& experiment) {
            experiment.distributed.how = distributed::ZeroConfig{.stage = stage};
          }};
}

std::vector<Candidate> shardings(const experiment::Experiment& experiment, const DryRunOptions& options) {
  if (options.world == 1) return {};
  const std::optional<distributed::ShardStage> now = config::facts_of(experiment.distributed.how).shards;
  std::vector<Candidate> stages;
  for (std::int64_t stage = now ? now->stage + 1 : 1; stage <= 3; ++stage) stages.push_back(sharding(stage));
  return stages;
}

std::vector<Candidate> offloading(const experiment::Experiment& experiment, const DryRunOptions& options) {
  if (options.device != PlannedDevice::cuda) return {};
  const auto* zero = experiment.distributed.how.get_if<distributed::ZeroConfig>();
  if (zero != nullptr && zero->offload.optimizer != distributed::Offload::none) return {};
  const std::int64_t stage = zero == nullptr ? 3 : zero->stage;
  return {{.settings = {{"distributed.kind", "zero"},
                        {"distributed.stage", std::to_string(stage)},
                        {"distributed.offload.optimizer", "cpu"}},
           .why = "the optimizer's state lies in the host's memory, and is updated there",
           .apply = [stage](experiment::Experiment& changed) {
             distributed::ZeroConfig config{.stage = stage};
             if (const auto* own = changed.distributed.how.get_if<distributed::ZeroConfig>()) config = *own;
             config.offload.optimizer = distributed::Offload::cpu;
             changed.distributed.how = config;
           }}};
}

/// Returns each single change that fits.
std::vector<FitSuggestion> tried(const experiment::Experiment& experiment, const DryRunOptions& options,
                                 const MemoryLimit& limit, const std::vector<Candidate>& candidates) {
  std::vector<FitSuggestion> found;
  for (const Candidate& candidate : candidates) {
    experiment::Experiment changed = experiment;
    candidate.apply(changed);
    const std::int64_t peak = peak_of(changed, options);
    if (peak <= limit.for_tensors())
      found.push_back({.settings = candidate.settings, .why = candidate.why, .peak_bytes = peak});
  }
  return found;
}

std::optional<FitSuggestion> together(const experiment::Experiment& experiment, const DryRunOptions& options,
                                      const MemoryLimit& limit, const std::vector<std::vector<Candidate>>& families) {
  experiment::Experiment changed = experiment;
  FitSuggestion all{.settings = {}, .why = "all that saves, together"};
  for (const std::vector<Candidate>& family : families) {
    if (family.empty()) continue;
    family.back().apply(changed);
    for (const Setting& setting : family.back().settings) {
      std::erase_if(all.settings, [&](const Setting& other) { return other.path == setting.path; });
      all.settings.push_back(setting);
    }
    all.peak_bytes = peak_of(changed, options);
    if (all.peak_bytes <= limit.for_tensors()) return all;
  }
  std::optional<FitSuggestion> smaller = smaller_batch(changed, options, limit);
  if (!smaller) return std::nullopt;
  smaller->settings.insert(smaller->settings.begin(), all.settings.begin(), all.settings.end());
  smaller->why = all.why;
  return smaller;
}

/// Returns a number between the two: the geometric mean as long as they are far apart.
std::int64_t between(std::int64_t low, std::int64_t high) {
  const std::int64_t from = std::max<std::int64_t>(low, 1);
  if (high < 4 * from) return low + (high - low) / 2;
  return static_cast<std::int64_t>(std::sqrt(static_cast<double>(from) * static_cast<double>(high)));
}

}  // namespace

MemoryLimit cpu_limit(std::int64_t bytes) {
  return {.bytes = bytes, .overhead = 350 * core::kMiB};
}

MemoryLimit gpu_limit(std::int64_t bytes) {
  // The context and libraries, and what a caching allocator can't use of its segments.
  return {.bytes = bytes, .overhead = 900 * core::kMiB + bytes / 50};
}

std::int64_t largest_batch(const experiment::Experiment& experiment, const DryRunOptions& options,
                           const MemoryLimit& limit, const DryRunStep& known) {
  const auto peak = [&](std::int64_t batch_size) { return peak_of(with_batch(experiment, batch_size), options); };
  const std::int64_t room = limit.for_tensors();
  std::int64_t fits = 0;               // the largest that is known to
  std::int64_t too_much = kMostBatch;  // the smallest that is known not to
  std::int64_t low = known.batch_size, low_peak = known.at_peak.total();
  const auto note = [&](std::int64_t batch_size, std::int64_t bytes) {
    (bytes <= room ? fits : too_much) = batch_size;
  };
  note(low, low_peak);
  std::int64_t next = low_peak <= room ? 2 * low : std::max<std::int64_t>(1, low / 2);
  // Memory is all but affine in the batch, if it has anything to do with the peak: two points tell where it crosses the
  // room, a third that it does.
  for (int tries = 0; tries < kMostTries && fits + 1 < too_much; ++tries) {
    next = std::clamp(next, fits + 1, too_much - 1);
    const std::int64_t next_peak = peak(next);
    note(next, next_peak);
    const double slope = next == low ? 0 : static_cast<double>(next_peak - low_peak) / static_cast<double>(next - low);
    low = next;
    low_peak = next_peak;
    if (slope > 0 && tries < kMostTries / 2) {
      if (low == fits && static_cast<double>(low_peak) + slope > kSurelyTooMuch * static_cast<double>(room)) break;
      next = low + static_cast<std::int64_t>(static_cast<double>(room - low_peak) / slope);
    } else {
      next = between(fits, too_much);
    }
  }
  if (fits == 0 && too_much > 1 && peak(1) <= room) return 1;
  return fits;
}

std::vector<FitSuggestion> changes_that_fit(const experiment::Experiment& experiment, const DryRunOptions& options,
                                            const MemoryLimit& limit) {
  std::vector<FitSuggestion> found;
  if (std::optional<FitSuggestion> smaller = smaller_batch(experiment, options, limit))
    found.push_back(std::move(*smaller));
  const std::vector<std::vector<Candidate>> families{checkpoints_at_once(experiment, options),
                                                     shardings(experiment, options), recomputations(experiment),
                                                     offloading(experiment, options)};
  for (const std::vector<Candidate>& family : families) {
    std::vector<FitSuggestion> some = tried(experiment, options, limit, family);
    found.insert(found.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  if (!found.empty()) return found;
  if (std::optional<FitSuggestion> all = together(experiment, options, limit, families))
    found.push_back(std::move(*all));
  return found;
}

}  // namespace trainctl::plan

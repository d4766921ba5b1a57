#include "plan/choose.h"

#include <algorithm>
#include <bit>

#include "core/text.h"

namespace trainctl::plan {
namespace {

constexpr std::int64_t kLargestChoice = 512;
constexpr std::int64_t kEnough = 16;  // samples, that recomputation isn't worth more of
constexpr double kUsable = 0.9;       // predictions are right to a few percent

using activation_checkpointing::BlocksConfig;

std::vector<BlocksConfig> candidates(const experiment::Experiment& experiment) {
  if (!experiment::chooses_recomputation(experiment)) return {experiment.activation_checkpointing.blocks};
  return {activation_checkpointing::NoCheckpointingConfig{}, activation_checkpointing::SelectiveOpConfig{},
          activation_checkpointing::FullCheckpointingConfig{}, activation_checkpointing::SqrtCheckpointingConfig{}};
}

/// A choice that was tried, with its memory.
struct Tried {
  std::int64_t batch = 0;  // 0: not even one sample fits
  std::int64_t peak = 0;
  BlocksConfig blocks;
};

MemoryLimit usable(const MemoryLimit& limit) {
  return {.bytes = static_cast<std::int64_t>(kUsable * static_cast<double>(limit.bytes)), .overhead = limit.overhead};
}

std::int64_t peak_bytes(const experiment::Experiment& experiment, const DryRunOptions& options) {
  return dry_run_step(experiment, options).at_peak.total();
}

/// Returns the largest power of two that fits. Memory grows with the batch, so the range of exponents is halved.
Tried largest_power(experiment::Experiment experiment, const DryRunOptions& options, const MemoryLimit& limit) {
  Tried best;
  int least = 0;
  int most = std::bit_width(static_cast<std::uint64_t>(kLargestChoice)) - 1;
  while (least <= most) {
    const int middle = (least + most + 1) / 2;
    experiment.dataset.batch_size = std::int64_t{1} << middle;
    const std::int64_t peak = peak_bytes(experiment, options);
    if (peak <= limit.for_tensors()) {
      best = {.batch = std::int64_t{1} << middle, .peak = peak};
      least = middle + 1;
    } else {
      most = middle - 1;
    }
  }
  return best;
}

Tried try_kind(experiment::Experiment experiment, const BlocksConfig& candidate, const DryRunOptions& options,
               const MemoryLimit& limit) {
  experiment.activation_checkpointing.blocks = candidate;
  Tried tried;
  if (experiment.dataset.batch_size.is_auto()) {
    tried = largest_power(experiment, options, limit);
  } else {
    const std::int64_t peak = peak_bytes(experiment, options);
    tried.peak = peak;
    tried.batch = peak <= limit.for_tensors() ? experiment.dataset.samples_per_batch() : 0;
  }
  tried.blocks = candidate;
  return tried;
}

Choices choices_of(const experiment::Experiment& experiment, std::int64_t batch, const BlocksConfig& blocks) {
  Choices choices{.batch = batch};
  std::vector<std::string> words;
  if (experiment::chooses_batch_size(experiment)) {
    choices.values.batch_size = batch;
    words.push_back("dataset.batch_size: " + std::to_string(batch));
  }
  if (experiment::chooses_recomputation(experiment)) {
    choices.values.blocks = blocks;
    words.push_back("activation_checkpointing.kind: " + std::string(blocks.kind()));
  }
  choices.what = core::list_words(words);
  return choices;
}

Choices predicted_choices(const experiment::Experiment& experiment, const Tried& chosen, const MemoryLimit& limit) {
  const bool fits = chosen.batch > 0;
  const std::int64_t batch =
      experiment.dataset.batch_size.is_auto() ? std::max<std::int64_t>(1, chosen.batch) : chosen.batch;
  Choices choices = choices_of(experiment, batch, chosen.blocks);
  choices.why = "auto is " + choices.what + ": ";
  choices.why += fits ? "a step's tensors are predicted to take " + core::format_bytes(chosen.peak) + " of "
                      : "nothing that was tried is predicted to fit into ";
  choices.why += core::format_bytes(limit.for_tensors());
  return choices;
}

}  // namespace

bool has_choices(const experiment::Experiment& experiment) {
  return experiment::chooses_batch_size(experiment) || experiment::chooses_recomputation(experiment);
}

Choices choose(const experiment::Experiment& experiment, const DryRunOptions& options, const MemoryLimit& limit) {
  DryRunOptions plain = options;
  plain.around_step = {};
  const MemoryLimit room = usable(limit);
  const bool chooses_batch = experiment.dataset.batch_size.is_auto();
  Tried best;
  for (const BlocksConfig& candidate : candidates(experiment)) {
    const Tried tried = try_kind(experiment, candidate, plain, room);
    // The last saves most: what is left where nothing fits.
    if (tried.batch > best.batch || best.batch == 0) best = tried;
    if (tried.batch >= (chooses_batch ? kEnough : 1)) break;
  }
  return predicted_choices(experiment, best, limit);
}

std::optional<Choices> next_smaller(const experiment::Experiment& experiment, const Choices& tried) {
  const std::vector<BlocksConfig> kinds = candidates(experiment);
  const BlocksConfig blocks = tried.values.blocks.value_or(kinds.back());
  const auto now =
      std::ranges::find(kinds, blocks.value.index(), [](const BlocksConfig& kind) { return kind.value.index(); });
  const bool saves_most = now == kinds.end() || std::next(now) == kinds.end();
  const bool can_halve = experiment.dataset.batch_size.is_auto() && tried.batch > 1;
  if (can_halve && (saves_most || tried.batch / 2 >= kEnough)) return choices_of(experiment, tried.batch / 2, blocks);
  if (!saves_most) return choices_of(experiment, tried.batch, *std::next(now));
  return std::nullopt;
}

experiment::Experiment without_choices(const experiment::Experiment& experiment) {
  experiment::Experiment plain = experiment;
  if (plain.dataset.batch_size.is_auto()) plain.dataset.batch_size = plain.dataset.eval_batch_size.value_or(kEnough);
  if (experiment::chooses_recomputation(plain))
    plain.activation_checkpointing.blocks = activation_checkpointing::NoCheckpointingConfig{};
  return plain;
}

}  // namespace trainctl::plan

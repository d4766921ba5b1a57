// `activation_checkpointing:`: memory for time. Which blocks' inner values are computed again in the backward pass
// instead of being kept, and how the values that are kept are stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/field.h"
#include "config/traits.h"

namespace trainctl::activation_checkpointing {

/// What other folders must know of a kind of `activation_checkpointing:`.
struct CheckpointingTraits {
  config::Stated<bool> recomputes;
  config::Stated<bool> is_chosen_by_plan;  // another kind replaces this one before anything is built
};

struct NoCheckpointingConfig {
  static constexpr std::string_view kind = "none";
  static constexpr CheckpointingTraits traits{.recomputes = false, .is_chosen_by_plan = false};
  static constexpr auto fields() { return config::Fields{}; }
};

/// The last block's values are needed first, so it is never recomputed; that holds for every kind.
struct FullCheckpointingConfig {
  static constexpr std::string_view kind = "full";
  static constexpr CheckpointingTraits traits{.recomputes = true, .is_chosen_by_plan = false};
  static constexpr auto fields() { return config::Fields{}; }
};

struct EveryNthBlockConfig {
  static constexpr std::string_view kind = "every_n";
  static constexpr CheckpointingTraits traits{.recomputes = true, .is_chosen_by_plan = false};
  std::int64_t n = 2;

  static constexpr auto fields() {
    return config::Fields{config::field<&EveryNthBlockConfig::n>(
        "Every n-th block is recomputed, the others are kept; 1 means all.", config::at_least(1))};
  }
};

struct BlockPatternConfig {
  static constexpr std::string_view kind = "pattern";
  static constexpr CheckpointingTraits traits{.recomputes = true, .is_chosen_by_plan = false};
  std::vector<std::string> modules{};

  static constexpr auto fields() {
    return config::Fields{config::field<&BlockPatternConfig::modules>(
        "Names of the blocks that are recomputed: `transformer.h.1*` or just its end, `h.0`; `*` stands for any "
        "characters, `?` for one.",
        config::required & config::non_empty)};
  }
};

/// What torchtitan calls selective op-level checkpointing.
struct SelectiveOpConfig {
  static constexpr std::string_view kind = "selective_op";
  static constexpr CheckpointingTraits traits{.recomputes = true, .is_chosen_by_plan = false};
  static constexpr auto fields() { return config::Fields{}; }
};

/// https://arxiv.org/abs/1604.06174
struct SqrtCheckpointingConfig {
  static constexpr std::string_view kind = "sqrt";
  static constexpr CheckpointingTraits traits{.recomputes = true, .is_chosen_by_plan = false};
  static constexpr auto fields() { return config::Fields{}; }
};

/// Chosen before anything is built, as src/plan predicts memory.
struct AutoCheckpointingConfig {
  static constexpr std::string_view kind = "auto";
  static constexpr CheckpointingTraits traits{.recomputes = false, .is_chosen_by_plan = true};
  static constexpr auto fields() { return config::Fields{}; }
};

enum class ActivationOffload { none, cpu };
enum class ActivationStorage { none, bf16 };

using BlocksConfig =
    config::OneOf<NoCheckpointingConfig, FullCheckpointingConfig, EveryNthBlockConfig, BlockPatternConfig,
                  SelectiveOpConfig, SqrtCheckpointingConfig, AutoCheckpointingConfig>;
static_assert(config::kHaveTraits<BlocksConfig, CheckpointingTraits>);

struct ActivationCheckpointingConfig {
  BlocksConfig blocks;
  ActivationOffload offload = ActivationOffload::none;
  ActivationStorage storage_dtype = ActivationStorage::none;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = ActivationCheckpointingConfig;
    return config::Fields{
        choice<&C::blocks>(
            "What is recomputed: `full` keeps each block's input alone; `every_n` n-th block or "
            "those of a `pattern`; `selective_op` recomputes blocks but keeps what products, convolutions "
            "and attention gave; `sqrt` recomputes runs of √n blocks; `auto` takes the first of none, "
            "selective_op, full and sqrt whose step fits into the device's memory, as "
            "`trainctl plan` predicts it."),
        field<&C::offload>("Where activations wait for the backward pass: on the device, or in the host's memory."),
        field<&C::storage_dtype>(
            "Keep fp32 values for the backward pass as bf16: half the memory, gradients rounded to "
            "three digits."),
    };
  }
};

}  // namespace trainctl::activation_checkpointing

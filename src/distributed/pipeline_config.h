// `distributed.pipeline_schedule` and `distributed.pipeline_split`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/field.h"
#include "config/traits.h"

namespace trainctl::distributed {

/// What a schedule's config says of its values.
struct PipelineScheduleFacts {
  config::Stated<std::int64_t> stages_per_rank;  // 0: a file says it
};

/// https://arxiv.org/abs/2006.09503
struct OneFOneBConfig {
  static constexpr std::string_view kind = "1f1b";
  PipelineScheduleFacts facts() const { return {.stages_per_rank = 1}; }
  static constexpr auto fields() { return config::Fields{}; }
};

/// https://arxiv.org/abs/1811.06965
struct GpipeConfig {
  static constexpr std::string_view kind = "gpipe";
  PipelineScheduleFacts facts() const { return {.stages_per_rank = 1}; }
  static constexpr auto fields() { return config::Fields{}; }
};

/// https://arxiv.org/abs/2104.04473
struct InterleavedConfig {
  static constexpr std::string_view kind = "interleaved_1f1b";
  std::int64_t stages_per_rank = 2;

  PipelineScheduleFacts facts() const { return {.stages_per_rank = stages_per_rank}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{field<&InterleavedConfig::stages_per_rank>(
        "Stages that each rank holds; more of them shorten the bubble and send more.", config::between(2, 64))};
  }
};

/// https://arxiv.org/abs/2401.10241
struct ZeroBubbleVConfig {
  static constexpr std::string_view kind = "zbv";
  PipelineScheduleFacts facts() const { return {.stages_per_rank = 2}; }
  static constexpr auto fields() { return config::Fields{}; }
};

struct ScheduleFileConfig {
  static constexpr std::string_view kind = "csv";
  std::string file;

  PipelineScheduleFacts facts() const { return {.stages_per_rank = 0}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{field<&ScheduleFileConfig::file>(
        "A line for each rank of the pipeline, with its actions in order, as torch.distributed.pipelining writes them: "
        "`0F0,0F1,0B0,0B1`. Stage, one of F, B, I (gradient of the input) and W (of the weights), micro-batch.",
        config::required)};
  }
};

using PipelineScheduleConfig =
    config::OneOf<OneFOneBConfig, GpipeConfig, InterleavedConfig, ZeroBubbleVConfig, ScheduleFileConfig>;
static_assert(config::kHaveFacts<PipelineScheduleConfig, PipelineScheduleFacts>);

/// How a model's blocks are dealt to the stages, in order.
struct SplitByCostConfig {
  static constexpr std::string_view kind = "cost";
  static constexpr auto fields() { return config::Fields{}; }
};
struct SplitByCountConfig {
  static constexpr std::string_view kind = "count";
  static constexpr auto fields() { return config::Fields{}; }
};
struct SplitByHandConfig {
  static constexpr std::string_view kind = "by_hand";
  std::vector<std::int64_t> blocks;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{field<&SplitByHandConfig::blocks>(
        "The number of blocks of each stage, in order; the embeddings and the head are a block each.",
        config::at_least(1) & config::required)};
  }
};
using PipelineSplitConfig = config::OneOf<SplitByCostConfig, SplitByCountConfig, SplitByHandConfig>;

}  // namespace trainctl::distributed

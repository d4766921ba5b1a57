// `distributed:`: how processes share the work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "comm/config.h"
#include "config/field.h"
#include "config/traits.h"
#include "distributed/pipeline_config.h"

namespace trainctl::distributed {

/// Where the ranks' parameters are. alone: each rank trains for itself. replicated: each rank has all, and gradients
/// are summed. sharded: each rank updates its shards.
enum class Layout { alone, replicated, sharded };

/// What other folders must know of a kind of `distributed:`.
struct DistributedTraits {
  config::Stated<Layout> layout;
  config::Stated<bool> ranks_are_threads;  // of one process, which no launcher multiplies
};

inline constexpr double kBucketMib = 25;

/// How replicas sum gradients.
struct GradientSums {
  double bucket_mib = kBucketMib;
  double sent_share = 1;                 // of the gradients' bytes, about
  bool could_compress = false;           // they are sent whole, and `compression` can change that
  bool finds_unused_parameters = false;  // in every step
};

/// What is sharded: 1 the optimizer's state, 2 gradients too, 3 parameters too.
struct ShardStage {
  std::int64_t stage = 3;
  bool gathers_twice = false;  // for the forward pass, and again for the backward one
};

/// What a kind's config says of its values.
struct DistributedFacts {
  config::Stated<bool> synchronizes_batch_norm;
  config::Stated<GradientSums> gradients;                    // of a layout that is replicated
  config::Stated<std::optional<ShardStage>> shards;          // of one that is sharded
  config::Stated<config::AutoOr<std::int64_t>> num_threads;  // that are ranks of one process
};

struct AutoDistributedConfig {
  static constexpr std::string_view kind = "auto";
  static constexpr DistributedTraits traits{.layout = Layout::replicated, .ranks_are_threads = false};
  DistributedFacts facts() const {
    return {.synchronizes_batch_norm = false, .gradients = GradientSums{}, .shards = std::nullopt, .num_threads = 1};
  }
  static constexpr auto fields() { return config::Fields{}; }
};

struct NotDistributedConfig {
  static constexpr std::string_view kind = "none";
  static constexpr DistributedTraits traits{.layout = Layout::alone, .ranks_are_threads = false};
  DistributedFacts facts() const {
    return {.synchronizes_batch_norm = false, .gradients = GradientSums{}, .shards = std::nullopt, .num_threads = 1};
  }
  static constexpr auto fields() { return config::Fields{}; }
};

/// What other folders must know of a way to compress gradients.
struct CompressionTraits {
  config::Stated<bool> is_whole;       // nothing is rounded or left out
  config::Stated<bool> carries_error;  // from one step to the next
};

/// What a compression's config says of its values.
struct CompressionFacts {
  config::Stated<double> sent_share;  // of the gradients' bytes, about
};

struct NoCompressionConfig {
  static constexpr std::string_view kind = "none";
  static constexpr CompressionTraits traits{.is_whole = true, .carries_error = false};
  CompressionFacts facts() const { return {.sent_share = 1.0}; }
  static constexpr auto fields() { return config::Fields{}; }
};
struct Bf16CompressionConfig {
  static constexpr std::string_view kind = "bf16";
  static constexpr CompressionTraits traits{.is_whole = false, .carries_error = false};
  CompressionFacts facts() const { return {.sent_share = 0.5}; }
  static constexpr auto fields() { return config::Fields{}; }
};
struct Fp16CompressionConfig {
  static constexpr std::string_view kind = "fp16";
  static constexpr CompressionTraits traits{.is_whole = false, .carries_error = false};
  CompressionFacts facts() const { return {.sent_share = 0.5}; }
  static constexpr auto fields() { return config::Fields{}; }
};

/// https://arxiv.org/abs/1905.13727
struct PowerSgdConfig {
  static constexpr std::string_view kind = "powersgd";
  static constexpr CompressionTraits traits{.is_whole = false, .carries_error = true};
  std::int64_t rank = 1;
  std::int64_t start_step = 1000;
  double min_compression_rate = 2;

  /// Two thin matrices instead of a square one of some hundreds of rows.
  CompressionFacts facts() const { return {.sent_share = std::min(1.0, 0.02 * static_cast<double>(rank))}; }
  static constexpr auto fields() {
    using config::field;
    using C = PowerSgdConfig;
    return config::Fields{
        field<&C::rank>("Of the two thin matrices that are sent for each matrix of gradients; more is nearer to the "
                        "exact sum, and costs more to send and to compute.",
                        config::at_least(1)),
        field<&C::start_step>("Steps before this one send gradients whole: early ones are the most sensitive. A tenth "
                              "of the run is usual.",
                              config::at_least(0)),
        field<&C::min_compression_rate>("Matrices that would shrink by less are sent whole, as are vectors.",
                                        config::at_least(1)),
    };
  }
};

using CompressionConfig =
    config::OneOf<NoCompressionConfig, Bf16CompressionConfig, Fp16CompressionConfig, PowerSgdConfig>;
static_assert(config::kHaveTraits<CompressionConfig, CompressionTraits> &&
              config::kHaveFacts<CompressionConfig, CompressionFacts>);

enum class SyncBuffers { broadcast, average };

struct DdpConfig {
  static constexpr std::string_view kind = "ddp";
  static constexpr DistributedTraits traits{.layout = Layout::replicated, .ranks_are_threads = false};
  double bucket_mib = kBucketMib;
  CompressionConfig gradient_compression;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool sync_batch_norm = false;
  SyncBuffers sync_buffers = SyncBuffers::broadcast;

  DistributedFacts facts() const {
    return {.synchronizes_batch_norm = sync_batch_norm,
            .gradients = GradientSums{.bucket_mib = bucket_mib,
                                      .sent_share = config::facts_of(gradient_compression).sent_share,
                                      .could_compress = config::traits_of(gradient_compression).is_whole,
                                      .finds_unused_parameters = find_unused_parameters},
            .shards = std::nullopt,
            .num_threads = 1};
  }
  static constexpr auto fields() {
    using config::field;
    using C = DdpConfig;
    return config::Fields{
        field<&C::bucket_mib>("Gradients are summed in pieces of this size while the backward pass goes on; MiB.",
                              config::positive),
        field<&C::gradient_compression>(
            "What gradients are sent as: in 16 bits (fp16 overflows where they are large, bf16 "
            "rounds the sum to three digits), or by powersgd as products of thin matrices, whose "
            "error each step hands to the next."),
        field<&C::find_unused_parameters>("Look in every step for parameters that the loss doesn't depend on, which "
                                          "would else be waited for; costs a walk over the graph."),
        field<&C::static_graph>("The same parameters take part in every step: seen in the first one, not looked for "
                                "again."),
        field<&C::sync_batch_norm>("BatchNorm normalises by the batch of all ranks, as one process with the whole "
                                   "batch would; costs two small exchanges a layer."),
        field<&C::sync_buffers>(
            "Whose BatchNorm statistics are evaluated and saved: those of the first rank (`broadcast`), or "
            "the mean over ranks (`average`)."),
    };
  }
};

struct LocalReplicasConfig {
  static constexpr std::string_view kind = "local_replicas";
  static constexpr DistributedTraits traits{.layout = Layout::replicated, .ranks_are_threads = true};
  config::AutoOr<std::int64_t> devices;
  double bucket_mib = kBucketMib;
  bool sync_batch_norm = false;
  SyncBuffers sync_buffers = SyncBuffers::broadcast;

  DistributedFacts facts() const {
    return {.synchronizes_batch_norm = sync_batch_norm,
            .gradients = GradientSums{.bucket_mib = bucket_mib},
            .shards = std::nullopt,
            .num_threads = devices};
  }
  static constexpr auto fields() {
    using config::field;
    using C = LocalReplicasConfig;
    return config::Fields{
        field<&C::devices>(
            "Replicas, each a thread of this one process; `auto` takes every GPU, or on a CPU one replica "
            "for every four cores (at least two).",
            config::between(1, 1'024)),
        field<&C::bucket_mib>("As in ddp.", config::positive),
        field<&C::sync_batch_norm>("As in ddp."),
        field<&C::sync_buffers>("As in ddp."),
    };
  }
};

enum class Offload { none, cpu, disk };

struct OffloadConfig {
  Offload optimizer = Offload::none;
  Offload parameters = Offload::none;
  std::string path;

  static constexpr auto fields() {
    using config::field;
    using C = OffloadConfig;
    return config::Fields{
        field<&C::optimizer>(
            "Where this rank's part of the optimizer's state lies. cpu: in the host's memory, where the update is "
            "then computed too, on fp32 masters there; on a CPU it is there anyway. disk: in a file, streamed "
            "through the update block by block."),
        field<&C::parameters>("The same for this rank's part of the parameters, which is brought in when a block is "
                              "gathered. Stage 3."),
        field<&C::path>(
            "Directory of the file: a disk of this node, with room for the part of every rank on it. The file "
            "has no name and is gone with the process; checkpoints are kept elsewhere."),
    };
  }
};

struct ZeroConfig {
  static constexpr std::string_view kind = "zero";
  static constexpr DistributedTraits traits{.layout = Layout::sharded, .ranks_are_threads = false};
  std::int64_t stage = 3;
  config::AutoOr<std::int64_t> shard;
  bool reshard_after_forward = true;
  OffloadConfig offload{};
  bool sync_batch_norm = false;
  SyncBuffers sync_buffers = SyncBuffers::broadcast;

  DistributedFacts facts() const {
    return {.synchronizes_batch_norm = sync_batch_norm,
            .gradients = GradientSums{},
            .shards = ShardStage{.stage = stage, .gathers_twice = reshard_after_forward},
            .num_threads = 1};
  }
  static constexpr auto fields() {
    using config::field;
    using C = ZeroConfig;
    return config::Fields{
        field<&C::stage>(
            "What each rank keeps only its part of: 1 the optimizer's state; 2 gradients too; 3 parameters "
            "too, gathered block by block when they are used.",
            config::between(1, 3)),
        field<&C::shard>("Ranks among which parts are dealt; auto takes all that the other axes leave. With the number "
                         "of ranks of a node, only sums of gradients' parts go between nodes (hybrid sharding).",
                         config::at_least(1)),
        field<&C::reshard_after_forward>(
            "Stage 3: give a block's parameters back after the forward pass and gather them "
            "again for the backward one; false holds them in between, for a third less "
            "communication."),
        field<&C::offload>("State that a step needs once, kept out of the device's memory."),
        field<&C::sync_batch_norm>("As in ddp."),
        field<&C::sync_buffers>("As in ddp."),
    };
  }
};

using DistributedKindConfig =
    config::OneOf<AutoDistributedConfig, NotDistributedConfig, DdpConfig, LocalReplicasConfig, ZeroConfig>;
static_assert(config::kHaveTraits<DistributedKindConfig, DistributedTraits> &&
              config::kHaveFacts<DistributedKindConfig, DistributedFacts>);

struct DistributedConfig {
  DistributedKindConfig how;
  config::AutoOr<std::int64_t> data;
  std::int64_t pipeline = 1;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t context = 1;
  PipelineScheduleConfig pipeline_schedule;
  PipelineSplitConfig pipeline_split;
  comm::Backend backend = comm::Backend::auto_;
  double timeout_s = 600;
  std::string network_interface;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = DistributedConfig;
    return config::Fields{
        choice<&C::how>(
            "How processes share the work: `auto` is ddp where a launcher started several, `none` lets each "
            "train alone."),
        field<&C::data>("Copies of the model, each with its own samples; auto takes the ranks that the other axes "
                        "leave. The product of all axes is the number of ranks.",
                        config::at_least(1)),
        field<&C::pipeline>("Ranks in a row that each hold some of the model's blocks; micro-batches, which are "
                            "accumulation.steps, pass through them. The other ranks are copies of this row, as kind "
                            "says.",
                            config::between(1, 1'024)),
        field<&C::tensor>("Ranks that each hold a part of every layer's heads and features, and compute on the same "
                          "samples; they exchange values within each layer, so a node should have all of them.",
                          config::between(1, 1'024)),
        field<&C::sequence_parallel>("Between the layers that the tensor ranks split, each of them has some tokens "
                                     "only: norms, dropout and what is kept of them take 1/tensor of the memory, for "
                                     "the same bytes sent."),
        field<&C::context>("Ranks that each hold some tokens of every sequence; keys and values pass through them in a "
                           "ring. For networks that predict next tokens, and sequences of a multiple of twice as many "
                           "tokens.",
                           config::between(1, 1'024)),
        field<&C::pipeline_schedule>(
            "In which order a rank computes on its stages and micro-batches. 1f1b keeps the fewest alive; gpipe keeps "
            "all; interleaved_1f1b gives each rank several stages; zbv has almost no bubble; csv reads your own."),
        field<&C::pipeline_split>("How blocks are dealt to stages: by the cost of their products, by number, or "
                                  "by_hand."),
        field<&C::backend>("What carries the collectives; auto takes nccl on GPUs and gloo on CPUs."),
        field<&C::timeout_s>("How long a rank waits for the others before the run fails, naming who never came; "
                             "seconds.",
                             config::positive),
        field<&C::network_interface>(
            "Network interface that ranks talk over (eth0); empty takes the one by which the rendezvous is reached."),
    };
  }
};

/// Returns what the config says of a process that has the whole model and whole sequences.
inline DistributedConfig without_parts(DistributedConfig config) {
  config.pipeline = config.tensor = config.context = 1;
  config.sequence_parallel = false;
  config.data = {};
  return config;
}

}  // namespace trainctl::distributed

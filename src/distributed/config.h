// `distributed:`: how processes share the work.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"

namespace trainctl {

struct AutoDistributedConfig {
  static constexpr std::string_view kind = "auto";
  static constexpr auto fields() { return std::tuple{}; }
};

struct NotDistributedConfig {
  static constexpr std::string_view kind = "none";
  static constexpr auto fields() { return std::tuple{}; }
};

enum class Compression { none, bf16, fp16 };
enum class BufferPolicy { first, average };

struct DdpConfig {
  static constexpr std::string_view kind = "ddp";
  double bucket_mib = 25;
  Compression compression = Compression::none;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool sync_batch_norm = false;
  BufferPolicy buffers = BufferPolicy::first;

  static constexpr auto fields() {
    using config::field;
    using C = DdpConfig;
    return std::tuple{
        field<&C::bucket_mib>("Gradients are summed in pieces of this size while the backward pass goes on; MiB.",
                              config::positive),
        field<&C::compression>("Send gradients in 16 bits. fp16 overflows where they are large; bf16 rounds the sum to "
                               "three digits."),
        field<&C::find_unused_parameters>("Look in every step for parameters that the loss doesn't depend on, which "
                                          "would else be waited for; costs a walk over the graph."),
        field<&C::static_graph>("The same parameters take part in every step: seen in the first one, not looked for "
                                "again."),
        field<&C::sync_batch_norm>("BatchNorm normalises by the batch of all ranks, as one process with the whole "
                                   "batch would; costs two small exchanges a layer."),
        field<&C::buffers>("Whose BatchNorm statistics are evaluated and saved: those of the first rank, or the mean "
                           "over ranks."),
    };
  }
};

struct DataParallelConfig {
  static constexpr std::string_view kind = "data_parallel";
  config::AutoOr<std::int64_t> devices;
  double bucket_mib = 25;
  bool sync_batch_norm = false;
  BufferPolicy buffers = BufferPolicy::first;

  static constexpr auto fields() {
    using config::field;
    using C = DataParallelConfig;
    return std::tuple{
        field<&C::devices>(
            "Replicas, each a thread of this one process; `auto` takes every GPU, or on a CPU one replica "
            "for every four cores (at least two).",
            config::at_least(1)),
        field<&C::bucket_mib>("As in ddp.", config::positive),
        field<&C::sync_batch_norm>("As in ddp."),
        field<&C::buffers>("As in ddp."),
    };
  }
};

struct ZeroConfig {
  static constexpr std::string_view kind = "zero";
  std::int64_t stage = 3;
  bool reshard_after_forward = true;
  bool sync_batch_norm = false;
  BufferPolicy buffers = BufferPolicy::first;

  static constexpr auto fields() {
    using config::field;
    using C = ZeroConfig;
    return std::tuple{
        field<&C::stage>(
            "What each rank keeps only its part of: 1 the optimizer's state; 2 gradients too; 3 parameters "
            "too, gathered block by block when they are used.",
            config::between(1, 3)),
        field<&C::reshard_after_forward>(
            "Stage 3: give a block's parameters back after the forward pass and gather them "
            "again for the backward one; false holds them in between, for a third less "
            "communication."),
        field<&C::sync_batch_norm>("As in ddp."),
        field<&C::buffers>("As in ddp."),
    };
  }
};

using DistributedKindConfig =
    config::OneOf<AutoDistributedConfig, NotDistributedConfig, DdpConfig, DataParallelConfig, ZeroConfig>;

enum class CommunicationBackend { auto_, gloo, nccl, mpi };

struct DistributedConfig {
  DistributedKindConfig how;
  CommunicationBackend backend = CommunicationBackend::auto_;
  double timeout_s = 600;
  std::string interface;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = DistributedConfig;
    return std::tuple{
        choice<&C::how>(
            "How processes share the work: `auto` is ddp where a launcher started several, `none` lets each "
            "train alone."),
        field<&C::backend>("What carries the collectives; auto takes nccl on GPUs and gloo on CPUs."),
        field<&C::timeout_s>("How long a rank waits for the others before the run fails, naming who never came; "
                             "seconds.",
                             config::positive),
        field<&C::interface>("Network interface that ranks talk over (eth0); empty takes that of the host's name."),
    };
  }
};

}  // namespace trainctl

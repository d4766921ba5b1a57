// What a framework's kernels read and write beside its products, and what it overlaps: the entries of software.yaml.
#pragma once

#include <cstdint>
#include <string>

#include "config/field.h"

namespace trainctl::cluster {

/// Memory traffic of a layer's kernels. A pass reads or writes each 16-bit value once.
struct StreamCounts {
  double hidden_passes = 6;
  double inner_passes = 3;
  double projection_passes = 2;
  double stream_kernels = 5;
  double kernels = 12;
  double softmax_bytes = 0;
  double loss_bytes = 6;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = StreamCounts;
    return std::tuple{
        field<&C::hidden_passes>("Passes over the residual stream in a layer.", non_negative),
        field<&C::inner_passes>("Passes over the feed-forward layer's inner features.", non_negative),
        field<&C::projection_passes>("Passes over queries, keys and values.", non_negative),
        field<&C::stream_kernels>("Kernels that make these passes.", non_negative),
        field<&C::kernels>("All kernels of a layer that the host launches.", non_negative),
        field<&C::softmax_bytes>("Bytes for each score of unfused attention.", non_negative),
        field<&C::loss_bytes>("Bytes for each logit.", non_negative),
    };
  }
};

/// What one rank's kernels cost beside the counts above.
struct KernelHabits {
  std::string attention = "flash2";
  double launch_scale = 1;
  bool synchronous_launches = false;
  double stream_efficiency = 0;
  double stream_kernel_us = 0;
  bool pads_vocabulary = true;
  double accumulation_bytes = 0;
  double weight_gradient_bytes = 2;
  double optimizer_bytes = 36;
  bool recomputes_quantized_products = false;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = KernelHabits;
    return std::tuple{
        field<&C::attention>("Attention kernel's table; `unfused`: two products and a softmax."),
        field<&C::launch_scale>("The host's time for a kernel against the surface's.", non_negative),
        field<&C::synchronous_launches>("Each launch waits for its kernel (CUDA_LAUNCH_BLOCKING)."),
        field<&C::stream_efficiency>("Share of the memory's bandwidth in passes; 0: the surface's.", config::fraction),
        field<&C::stream_kernel_us>("Microseconds of such a kernel beside its bytes; with stream_efficiency.",
                                    non_negative),
        field<&C::pads_vocabulary>("Each rank's part of the vocabulary is a multiple of 128."),
        field<&C::accumulation_bytes>("Bytes a weight and micro-batch to add gradients up; 0: products add them.",
                                      non_negative),
        field<&C::weight_gradient_bytes>("Bytes that a product of weight gradients moves for each weight.",
                                         non_negative),
        field<&C::optimizer_bytes>("Bytes that an optimizer step moves for each parameter.", non_negative),
        field<&C::recomputes_quantized_products>("per_op recomputes all products in fp8."),
    };
  }
};

/// What ranks send, and behind what it hides.
struct CommunicationHabits {
  double gradient_bytes = 4;
  double tied_gradient_bytes = 0;
  bool overlaps_data_parallel = true;
  bool overlaps_in_pipeline = true;
  bool scatters_gradients = false;
  bool chunks_tensor_parallel = false;
  bool hides_reductions = true;
  bool hides_sums = false;
  double tensor_copy_passes = 0;
  double tensor_gather_bytes_fp8 = 2;
  bool transfers_hold_stage = true;
  double shard_gather_bytes = 2;
  double shard_gather_bytes_fp8 = 2;
  double shard_reduce_bytes = 4;
  double shard_copy_bytes = 0;
  bool gathers_before_backward = false;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = CommunicationHabits;
    return std::tuple{
        field<&C::gradient_bytes>("Bytes of a gradient between copies.", non_negative),
        field<&C::tied_gradient_bytes>("Bytes of the tied embedding's gradient between first and last stage; 0: "
                                       "gradient_bytes.",
                                       non_negative),
        field<&C::overlaps_data_parallel>("Sums between copies go on behind the backward and the forward pass."),
        field<&C::overlaps_in_pipeline>("They do so in a pipeline too."),
        field<&C::scatters_gradients>("Copies that share the optimizer's state scatter sums where nothing overlaps."),
        field<&C::chunks_tensor_parallel>("Collectives of tensor ranks are cut up and hidden behind products."),
        field<&C::hides_reductions>("Reductions of tensor ranks hide behind products of weight gradients."),
        field<&C::hides_sums>("Sums of tensor ranks do so too, without sequence parallelism."),
        field<&C::tensor_copy_passes>("Passes over the residual stream that a tensor collective adds.", non_negative),
        field<&C::tensor_gather_bytes_fp8>("Bytes of a gathered value of tensor ranks in fp8.", non_negative),
        field<&C::transfers_hold_stage>("A stage waits while its transfer goes on."),
        field<&C::shard_gather_bytes>("Bytes of a gathered parameter.", non_negative),
        field<&C::shard_gather_bytes_fp8>("Bytes of a gathered parameter in fp8.", non_negative),
        field<&C::shard_reduce_bytes>("Bytes of a reduced gradient when parameters are sharded.", non_negative),
        field<&C::shard_copy_bytes>("Bytes that sharding copies on the device for each parameter.", non_negative),
        field<&C::gathers_before_backward>("A layer's backward pass waits for its gather."),
    };
  }
};

/// Bytes that a rank keeps.
struct StateBytes {
  double resident = 6;
  double shared = 12;
  double unshared = 0;
  double logit = 6;
  bool keeps_layer_workspace = false;
  double buffers = 0;
  double allocator_share = 1;
  double context_mib = 0;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = StateBytes;
    return std::tuple{
        field<&C::resident>("Bytes of a parameter and its gradient on each copy.", non_negative),
        field<&C::shared>("Bytes of the optimizer's state for each parameter, which copies share.", non_negative),
        field<&C::unshared>("Bytes for each parameter that stage 0 adds.", non_negative),
        field<&C::logit>("Bytes of each logit at the memory's peak.", non_negative),
        field<&C::keeps_layer_workspace>("A layer's gradient buffers and temporaries stay allocated."),
        field<&C::buffers>("Bytes of communication buffers.", non_negative),
        field<&C::allocator_share>("Share of the allocator's memory that tensors fill.",
                                   config::fraction & config::positive),
        field<&C::context_mib>("MiB of the device's context, where the source counts it.", non_negative),
    };
  }
};

struct Software {
  std::string name;
  StreamCounts forward;
  StreamCounts backward;
  KernelHabits kernels;
  CommunicationHabits communication;
  StateBytes memory;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using C = Software;
    return std::tuple{
        field<&C::name>("Name.", config::non_empty & config::required),
        field<&C::forward>("Memory traffic of the forward pass."),
        field<&C::backward>("Memory traffic of the backward pass."),
        field<&C::kernels>("Kernels."),
        field<&C::communication>("Communication."),
        field<&C::memory>("Memory."),
        field<&C::source>("Where the counts are from.", config::non_empty & config::required),
    };
  }

  bool has_fused_attention() const { return kernels.attention != "unfused"; }
};

}  // namespace trainctl::cluster

// What a framework's kernels read and write beside its products, and what it overlaps: the entries of software.yaml.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/layout.h"
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
  double separate_softmax_bytes = 0;
  double separate_softmax_kernels = 0;
  double context_merge_bytes = 0;
  double context_merge_kernels = 0;
  double loss_bytes = 6;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = StreamCounts;
    return config::Fields{
        field<&C::hidden_passes>("Passes over the residual stream in a layer.", non_negative),
        field<&C::inner_passes>("Passes over the feed-forward layer's inner features.", non_negative),
        field<&C::projection_passes>("Passes over queries, keys and values.", non_negative),
        field<&C::stream_kernels>("Kernels that make these passes.", non_negative),
        field<&C::kernels>("All kernels of a layer that the host launches.", non_negative),
        field<&C::softmax_bytes>("Bytes for each score of unfused attention.", non_negative),
        field<&C::separate_softmax_bytes>("Bytes that each score costs more where no kernel joins scale, mask and "
                                          "softmax.",
                                          non_negative),
        field<&C::separate_softmax_kernels>("Kernels that the host then launches more.", non_negative),
        field<&C::context_merge_bytes>("Bytes of each query feature to merge the attention of another rank's keys.",
                                       non_negative),
        field<&C::context_merge_kernels>("Kernels that merge it.", non_negative),
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
  bool recomputes_only_needed = false;
  double accumulation_bytes = 0;
  double weight_gradient_bytes = 2;
  double optimizer_bytes = 36;
  bool recomputes_quantized_products = false;
  double recomputed_products = 0.5;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = KernelHabits;
    return config::Fields{
        field<&C::attention>("Attention kernel's table; `unfused`: two products and a softmax."),
        field<&C::launch_scale>("The host's time for a kernel against the surface's.", non_negative),
        field<&C::synchronous_launches>("Each launch waits for its kernel (CUDA_LAUNCH_BLOCKING)."),
        field<&C::stream_efficiency>("Share of the memory's bandwidth in passes; 0: the surface's.", config::fraction),
        field<&C::stream_kernel_us>("Microseconds of such a kernel beside its bytes; with stream_efficiency.",
                                    non_negative),
        field<&C::pads_vocabulary>("Each rank's part of the vocabulary is a multiple of 128."),
        field<&C::recomputes_only_needed>("Full recomputation leaves out a layer's last product, which no backward "
                                          "pass reads."),
        field<&C::accumulation_bytes>("Bytes a weight and micro-batch to add gradients up; 0: products add them.",
                                      non_negative),
        field<&C::weight_gradient_bytes>("Bytes that a product of weight gradients moves for each weight.",
                                         non_negative),
        field<&C::optimizer_bytes>("Bytes that an optimizer step moves for each parameter.", non_negative),
        field<&C::recomputes_quantized_products>("per_op recomputes all products in fp8."),
        field<&C::recomputed_products>("Share of the products of queries and inner features that per_op recomputes.",
                                       config::fraction),
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
  double tensor_gather_bytes_nvfp4 = 2;
  bool merges_context_blocks = false;
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
    return config::Fields{
        field<&C::gradient_bytes>("Bytes of a gradient between copies.", non_negative),
        field<&C::tied_gradient_bytes>("Bytes of the tied embedding's gradient between first and last stage; 0: "
                                       "gradient_bytes.",
                                       non_negative),
        field<&C::overlaps_data_parallel>("Sums between copies go on behind the backward and the forward pass."),
        field<&C::overlaps_in_pipeline>("They do so in a pipeline too."),
        field<&C::scatters_gradients>("Copies that share the optimizer's state scatter sums where nothing overlaps."),
        field<&C::chunks_tensor_parallel>("Collectives of tensor ranks are cut up and hidden behind products."),
        field<&C::hides_reductions>("Reductions of tensor ranks hide behind products of weight gradients, and repeated "
                                    "gathers behind those of inputs."),
        field<&C::hides_sums>("Sums of tensor ranks do so too, without sequence parallelism."),
        field<&C::tensor_copy_passes>("Passes over the residual stream that a tensor collective adds.", non_negative),
        field<&C::tensor_gather_bytes_fp8>("Bytes of a gathered value of tensor ranks in fp8.", non_negative),
        field<&C::tensor_gather_bytes_nvfp4>("Bytes of a gathered value of tensor ranks in NVFP4.", non_negative),
        field<&C::merges_context_blocks>("Context ranks merge attention of each rank's keys; without: all keys are "
                                         "gathered first."),
        field<&C::transfers_hold_stage>("A stage waits while its transfer goes on."),
        field<&C::shard_gather_bytes>("Bytes of a gathered parameter.", non_negative),
        field<&C::shard_gather_bytes_fp8>("Bytes of a gathered parameter in fp8.", non_negative),
        field<&C::shard_reduce_bytes>("Bytes of a reduced gradient when parameters are sharded.", non_negative),
        field<&C::shard_copy_bytes>("Bytes that sharding copies on the device for each parameter.", non_negative),
        field<&C::gathers_before_backward>("A layer's backward pass waits for its gather."),
    };
  }
  /// Bytes of a value that tensor ranks gather.
  double tensor_gather_bytes(Precision precision) const {
    if (precision == Precision::fp8) return tensor_gather_bytes_fp8;
    return precision == Precision::nvfp4 ? tensor_gather_bytes_nvfp4 : 2;
  }
};

/// Bytes that a layer keeps for its backward pass, for each token and feature. `known`: the counts of Korthikanti et
/// al. (https://arxiv.org/abs/2205.05198) are taken without it.
struct ActivationBytes {
  bool known = false;
  double hidden = 0;
  double hidden_gated = 0;
  double gathered = 0;
  double attended = 2;
  double head = 0;
  double projections = 2;
  double inner = 4;
  double per_op_hidden = 6;
  double per_op_inner = 2;
  double input = 2;
  double casts = 0;
  double workspace_hidden = 0;
  double workspace_inner = 0;
  double workspace_inner_gated = 0;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = ActivationBytes;
    return config::Fields{
        field<&C::known>("These counts are taken."),
        field<&C::hidden>("Residual stream and norms; tensor ranks may share them.", non_negative),
        field<&C::hidden_gated>("The same of networks with gates.", non_negative),
        field<&C::gathered>("Inputs of split layers, which each tensor rank has.", non_negative),
        field<&C::attended>("Output of attention.", non_negative),
        field<&C::head>("Statistics of attention, for each head.", non_negative),
        field<&C::projections>("Queries, keys and values.", non_negative),
        field<&C::inner>("Inner features, for each matrix that makes them.", non_negative),
        field<&C::per_op_hidden>("What of the residual stream per_op keeps.", non_negative),
        field<&C::per_op_inner>("What of the inner features per_op keeps.", non_negative),
        field<&C::input>("Input of a layer, which full recomputation keeps.", non_negative),
        field<&C::casts>("16-bit copy of the weights that a live micro-batch keeps, without recomputation.",
                         non_negative),
        field<&C::workspace_hidden>("Temporaries of the layer that computes, for each hidden feature.", non_negative),
        field<&C::workspace_inner>("Temporaries for each inner feature.", non_negative),
        field<&C::workspace_inner_gated>("The same of networks with gates.", non_negative),
    };
  }
};

/// Bytes that a rank keeps.
struct StateBytes {
  double resident = 6;
  double shared = 12;
  double unshared = 0;
  double sharded = 16;
  double gathered = 8;
  double gathered_in_pipeline = 0;
  bool keeps_stage_outputs = false;
  double logit = 6;
  bool keeps_layer_workspace = false;
  double buffers = 0;
  double allocator_share = 1;
  double context_mib = 0;
  double device_share = 0;
  double summed = 0;

  static constexpr auto fields() {
    using config::field;
    using config::non_negative;
    using C = StateBytes;
    return config::Fields{
        field<&C::resident>("Bytes of a parameter and its gradient on each copy.", non_negative),
        field<&C::shared>("Bytes of the optimizer's state for each parameter, which copies share.", non_negative),
        field<&C::unshared>("Bytes for each parameter that stage 0 adds.", non_negative),
        field<&C::sharded>("Bytes of all states of a parameter that copies share.", non_negative),
        field<&C::gathered>("Bytes of gathered parameters and gradients for each parameter of a layer.", non_negative),
        field<&C::gathered_in_pipeline>("The same for each parameter of the rank, where pipelines keep all layers "
                                        "gathered; 0: they keep two.",
                                        non_negative),
        field<&C::keeps_stage_outputs>("A stage keeps its outputs until their backward pass."),
        field<&C::logit>("Bytes of each logit at the memory's peak.", non_negative),
        field<&C::keeps_layer_workspace>("A layer's gradient buffers and temporaries stay allocated."),
        field<&C::buffers>("Bytes of communication buffers.", non_negative),
        field<&C::allocator_share>("Share of the allocator's memory that tensors fill.",
                                   config::fraction & config::positive),
        field<&C::context_mib>("MiB of the device's context, where the source counts it.", non_negative),
        field<&C::device_share>("Share of the device's memory that the allocator can't use.", config::below_one),
        field<&C::summed>("Bytes of each gradient in buckets between copies, in stage 0.", non_negative),
    };
  }
};

struct Software {
  std::string name;
  bool fills_stages = false;
  StreamCounts forward;
  StreamCounts backward;
  KernelHabits kernels;
  CommunicationHabits communication;
  StateBytes memory;
  ActivationBytes activations;
  std::string source;

  static constexpr auto fields() {
    using config::field;
    using C = Software;
    return config::Fields{
        field<&C::name>("Name.", config::non_empty & config::required),
        field<&C::fills_stages>("Layers that can't be dealt evenly fill one stage after the other."),
        field<&C::forward>("Memory traffic of the forward pass."),
        field<&C::backward>("Memory traffic of the backward pass."),
        field<&C::kernels>("Kernels."),
        field<&C::communication>("Communication."),
        field<&C::memory>("Memory."),
        field<&C::activations>("Activations."),
        field<&C::source>("Where the counts are from.", config::non_empty & config::required),
    };
  }

  bool has_fused_attention() const { return kernels.attention != "unfused"; }
};

}  // namespace trainctl::cluster

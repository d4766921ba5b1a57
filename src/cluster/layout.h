// How ranks share one network and its batch.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl::cluster {

enum class Precision { fp16, bf16, fp8, nvfp4 };

/// How values become eight or four bits: which scale they have, and thereby how often memory is read.
enum class Quantization { none, current, delayed, tensorwise, rowwise, mx, nvfp4 };

/// What the backward pass computes again. attention: the unfused attention alone. per_op: all but the outputs of every
/// second product. activation: the activation function of the feed-forward layer.
enum class Recomputation { none, full, attention, per_op, activation };

enum class ScheduleKind { one_forward_one_backward, interleaved, zero_bubble_v, gpipe };

/// The product of the axes is the number of ranks. Ranks with consecutive numbers differ in `tensor` first, then in
/// `context`, `data` and `pipeline`.
struct Layout {
  std::int64_t data = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t stages_per_rank = 1;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  std::int64_t micro_batch = 1;
  std::int64_t num_micro_batches = 1;
  std::int64_t zero = 0;
  bool fully_sharded = false;
  Recomputation recomputation = Recomputation::none;
  std::int64_t num_recomputed_layers = 0;
  bool sequence_parallel = false;
  Precision precision = Precision::bf16;
  Quantization quantization = Quantization::none;
  bool adapters_only = false;

  static constexpr auto fields() {
    using config::at_least;
    using config::field;
    using C = Layout;
    return config::Fields{
        field<&C::data>("Copies of the model, each with its own samples.", at_least(1)),
        field<&C::context>("Ranks that share each sequence.", at_least(1)),
        field<&C::tensor>("Ranks that share each layer.", at_least(1)),
        field<&C::pipeline>("Ranks in a row that hold the layers.", at_least(1)),
        field<&C::stages_per_rank>("Stages that each rank of a row holds.", at_least(1)),
        field<&C::schedule>("Order in which a rank computes on its stages and micro-batches."),
        field<&C::micro_batch>("Sequences of a micro-batch.", at_least(1)),
        field<&C::num_micro_batches>("Micro-batches of a step.", at_least(1)),
        field<&C::zero>("What copies share: 1 the optimizer's state, 2 gradients too, 3 parameters too.",
                        config::between(0, 3)),
        field<&C::fully_sharded>("Parameters are gathered and gradients reduced layer by layer."),
        field<&C::recomputation>("What the backward pass computes again."),
        field<&C::num_recomputed_layers>("Layers that are recomputed in full beside that.", at_least(0)),
        field<&C::sequence_parallel>("Tensor ranks share the tokens between their layers."),
        field<&C::precision>("Values that products read."),
        field<&C::quantization>("How values become eight or four bits."),
        field<&C::adapters_only>("Only low-rank adapters are trained."),
    };
  }

  std::int64_t world() const { return data * context * tensor * pipeline; }
  /// Ranks that hold the same parameters, or parts of them.
  std::int64_t num_copies() const { return data * context; }
  std::int64_t global_batch() const { return data * micro_batch * num_micro_batches; }
  bool is_quantized() const { return precision == Precision::fp8 || precision == Precision::nvfp4; }

  bool operator==(const Layout&) const = default;
};

}  // namespace trainctl::cluster

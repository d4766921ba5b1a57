#include "cluster/memory.h"

#include <algorithm>

#include "cluster/step.h"
#include "core/units.h"

namespace trainctl::cluster {
namespace {

constexpr double kGiB = 1 << 30;

/// What a layer keeps for its backward pass, and what a recomputed one keeps instead; bytes.
struct LayerActivations {
  double kept = 0;
  double computing = 0;  // beside it while one layer's backward pass goes on
};

/// Counts as in Korthikanti et al. (https://arxiv.org/abs/2205.05198), equation 2; fused attention keeps no scores.
double activation_bytes(const Setup& setup) {
  const auto& [model, layout, cluster] = setup;
  const double tokens = setup.tokens();
  const auto tensor = static_cast<double>(layout.tensor);
  const double shared = setup.token_ranks();
  const auto hidden = static_cast<double>(model.hidden_size);
  const double inner = static_cast<double>(model.intermediate_size) / tensor;
  const double heads = static_cast<double>(model.num_heads) / tensor;
  const double projections = static_cast<double>(model.query_size() + 2 * model.kv_size()) / tensor;
  if (model.gated)
    return tokens * (8 * hidden / shared + 2 * projections + 2 * hidden / tensor + 4 * heads + 6 * inner);
  const double own = static_cast<double>(model.sequence_length) / static_cast<double>(layout.context);
  const bool keeps_scores = !cluster.software.has_fused_attention() &&
                            layout.recomputation != Recomputation::attention &&
                            layout.recomputation != Recomputation::per_op;
  return tokens * (10 * hidden / shared + 8 * hidden / tensor + 4 * inner) +
         (keeps_scores ? 5 * static_cast<double>(layout.micro_batch) * heads * own * own : 0);
}

/// Counts as the framework's own profile says.
double profiled_bytes(const Setup& setup, const ActivationBytes& bytes) {
  const auto& [model, layout, cluster] = setup;
  const auto tensor = static_cast<double>(layout.tensor);
  const double shared = setup.token_ranks();
  const auto hidden = static_cast<double>(model.hidden_size);
  const double inner = static_cast<double>((model.num_feed_forward_matrices() - 1) * model.intermediate_size) / tensor;
  const double projections = static_cast<double>(model.query_size() + 2 * model.kv_size()) / tensor;
  const double split =
      bytes.projections * projections + bytes.attended * static_cast<double>(model.query_size()) / tensor;
  if (layout.recomputation == Recomputation::per_op)
    return setup.tokens() * (split + bytes.per_op_hidden * hidden / shared + bytes.per_op_inner * inner);
  const double stream = model.gated ? bytes.hidden_gated : bytes.hidden;
  const double heads = bytes.head * static_cast<double>(model.num_heads) / tensor;
  return setup.tokens() * (split + heads + (stream / shared + bytes.gathered) * hidden + bytes.inner * inner);
}

LayerActivations profiled_activations(const Setup& setup, const ActivationBytes& bytes) {
  const auto& [model, layout, cluster] = setup;
  const auto tensor = static_cast<double>(layout.tensor);
  const double shared = setup.token_ranks();
  const double casts = bytes.casts * static_cast<double>(model.layer_matrix_parameters()) / tensor;
  const double temporaries = setup.tokens() * (bytes.workspace_hidden * static_cast<double>(model.hidden_size) +
                                               (model.gated ? bytes.workspace_inner_gated : bytes.workspace_inner) *
                                                   static_cast<double>(model.intermediate_size) / tensor);
  if (layout.recomputation == Recomputation::none)
    return {.kept = profiled_bytes(setup, bytes) + casts, .computing = temporaries};
  Layout whole = layout;
  whole.recomputation = Recomputation::none;
  const Setup once{.model = model, .layout = whole, .cluster = cluster};
  const double again = profiled_bytes(once, bytes) + casts + temporaries;
  if (layout.recomputation == Recomputation::per_op) return {.kept = profiled_bytes(setup, bytes), .computing = again};
  const double input = bytes.input * setup.tokens() * static_cast<double>(model.hidden_size) / shared;
  return {.kept = input, .computing = again};
}

/// Counts of a framework that keeps attention and every second product: keys, queries, gate and input of the layer.
/// What else backward reads is computed again, one layer at a time.
LayerActivations every_second_product(const Setup& setup) {
  const auto& [model, layout, cluster] = setup;
  const auto tensor = static_cast<double>(layout.tensor);
  const double shared = setup.token_ranks();
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto inner = static_cast<double>(model.intermediate_size);
  const double products = static_cast<double>(model.query_size() + model.kv_size()) + inner;
  const double attention = 2 * static_cast<double>(model.query_size()) + 4 * static_cast<double>(model.num_heads);
  return {.kept = setup.tokens() * (4 * hidden / shared + (2 * products + attention) / tensor),
          .computing = setup.tokens() * 4 * (inner + hidden) / tensor};
}

LayerActivations layer_activations(const Setup& setup) {
  if (const ActivationBytes& profile = setup.cluster.software.activations; profile.known)
    return profiled_activations(setup, profile);
  const double whole = activation_bytes(setup);
  if (setup.layout.recomputation == Recomputation::per_op) return every_second_product(setup);
  if (setup.layout.recomputation != Recomputation::full) return {.kept = whole};
  const double shared = setup.token_ranks();
  return {.kept = 2 * setup.tokens() * static_cast<double>(setup.model.hidden_size) / shared, .computing = whole};
}

/// Returns how many layers' activations a rank keeps at once.
double live_layers(const Setup& setup, std::int64_t rank, const std::vector<std::int64_t>& stages) {
  const Layout& layout = setup.layout;
  const std::int64_t ahead = layout.pipeline - rank;
  const auto first = static_cast<double>(stages[static_cast<std::size_t>(rank)]);
  switch (layout.schedule) {
    case ScheduleKind::gpipe:
      return static_cast<double>(layout.num_micro_batches) * first;
    case ScheduleKind::zero_bubble_v:
      return static_cast<double>(2 * std::min(layout.num_micro_batches, layout.pipeline)) * first;
    case ScheduleKind::interleaved:
    case ScheduleKind::one_forward_one_backward:
      break;
  }
  if (layout.stages_per_rank == 1) return static_cast<double>(std::min(ahead, layout.num_micro_batches)) * first;
  const std::int64_t chunks = 2 * (ahead - 1) + (layout.stages_per_rank - 1) * layout.pipeline + 1;
  return static_cast<double>(std::min(layout.num_micro_batches * layout.stages_per_rank, chunks)) * first;
}

/// Outputs that a stage keeps until the backward pass of their micro-batches.
double output_bytes(const Setup& setup, std::int64_t rank) {
  const Layout& layout = setup.layout;
  const bool sends = rank + 1 < layout.pipeline && layout.stages_per_rank == 1;
  if (!sends || !setup.cluster.software.memory.keeps_stage_outputs) return 0;
  const auto live = static_cast<double>(std::min(layout.pipeline - rank, layout.num_micro_batches));
  return live * setup.tokens() * 2 * static_cast<double>(setup.model.hidden_size);
}

double state_bytes(const Setup& setup, double parameters) {
  const StateBytes& bytes = setup.cluster.software.memory;
  const auto copies = static_cast<double>(setup.layout.num_copies());
  if (setup.layout.zero == 3 ||
      setup.layout.fully_sharded) {  // two layers are gathered at once, in 16 bits with gradients
    const double sharded = parameters * bytes.sharded / copies;
    if (setup.layout.pipeline > 1 && bytes.gathered_in_pipeline > 0)
      return sharded + parameters * bytes.gathered_in_pipeline;
    return sharded + bytes.gathered * setup.layer_parameters() + 4 * setup.embedding_parameters();
  }
  const bool shares = setup.layout.zero >= 1;
  return parameters * (bytes.resident + bytes.shared / (shares ? copies : 1) + (shares ? 0 : bytes.unshared) +
                       (shares || setup.layout.num_copies() == 1 ? 0 : bytes.summed));
}

}  // namespace

std::vector<MemoryUse> memory_of_ranks(const Setup& setup) {
  const auto& [model, layout, cluster] = setup;
  const StateBytes& bytes = cluster.software.memory;
  const std::vector<std::int64_t> stages = deal_layers(setup);
  const std::int64_t last = rank_of_stage(static_cast<std::int64_t>(stages.size()) - 1, layout);
  const LayerActivations activations = layer_activations(setup);
  const auto tensor = static_cast<double>(layout.tensor);
  std::vector<MemoryUse> ranks(static_cast<std::size_t>(layout.pipeline));
  const std::vector<double> parameters = parameters_of_ranks(setup, stages);
  for (std::int64_t rank = 0; rank < layout.pipeline; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    MemoryUse& use = ranks[at];
    use.states = state_bytes(setup, parameters[at]);
    use.activations = activations.kept * live_layers(setup, rank, stages) + output_bytes(setup, rank);
    use.workspace = activations.computing;
    if (bytes.keeps_layer_workspace)
      use.workspace += 2 * static_cast<double>(model.layer_matrix_parameters()) / tensor +
                       setup.tokens() * (6 * static_cast<double>(model.intermediate_size) / tensor +
                                         8 * static_cast<double>(model.hidden_size));
    if (rank == last) {
      const double logits = setup.tokens() * static_cast<double>(model.vocab_size) / tensor * bytes.logit;
      use.workspace =
          layout.recomputation == Recomputation::full ? std::max(use.workspace, logits) : use.workspace + logits;
    }
    const double used = use.total() + bytes.buffers;
    use.overhead = used / bytes.allocator_share + bytes.context_mib * core::kMiB +
                   bytes.device_share * cluster.device.memory_gib * kGiB - use.total();
  }
  return ranks;
}

MemoryUse peak_memory(const Setup& setup) {
  const std::vector<MemoryUse> ranks = memory_of_ranks(setup);
  return *std::ranges::max_element(ranks, {}, &MemoryUse::total);
}

}  // namespace trainctl::cluster

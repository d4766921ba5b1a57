#include "cluster/layer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trainctl::cluster {
namespace {

/// Sizes of a linear layer on one rank. A block has four: queries, keys and values together; attention's output; the
/// feed-forward layer's inner features, with its gate; its output.
struct Linear {
  double outputs;
  double inputs;
};
using Linears = std::array<Linear, 4>;

Linears linears_of(const Setup& setup) {
  const Transformer& model = setup.model;
  const std::int64_t ranks = setup.layout.tensor;
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t kv = 2 * model.kv_size();
  const std::int64_t projections = (model.query_size() + (kv >= ranks ? kv : 0)) / ranks;
  return {{{static_cast<double>(projections), static_cast<double>(hidden)},
           {static_cast<double>(hidden), static_cast<double>(model.query_size() / ranks)},
           {static_cast<double>((model.gated ? 2 : 1) * model.intermediate_size / ranks), static_cast<double>(hidden)},
           {static_cast<double>(hidden), static_cast<double>(model.intermediate_size / ranks)}}};
}

double sum(const std::array<double, 4>& values) {
  return values[0] + values[1] + values[2] + values[3];
}

/// Makes the times of one layer from those of its parts.
class LayerModel {
 public:
  explicit LayerModel(const Setup& setup)
      : setup_(setup),
        kernels_(setup.cluster),
        collectives_(setup.cluster),
        linears_(linears_of(setup)),
        tokens_(setup.tokens()) {}

  LayerTimes times() {
    time_products();
    time_quantization();
    time_attention();
    time_streams();
    if (layout().tensor > 1) time_tensor_ranks();
    if (layout().context > 1) time_context_ranks();
    if (software().kernels.synchronous_launches) time_waits();
    times_.recomputation = recomputation();
    time_launches();
    times_.forward = std::max(computed_forward() + exposed_forward(), times_.launches.forward);
    times_.backward = std::max(computed_backward() + times_.tensor_communication.backward +
                                   times_.context_communication.backward + times_.recomputation,
                               times_.launches.backward);
    return times_;
  }

 private:
  const Layout& layout() const { return setup_.layout; }
  const Transformer& model() const { return setup_.model; }
  const Software& software() const { return setup_.cluster.software; }
  double hidden() const { return static_cast<double>(model().hidden_size); }
  double tensor() const { return static_cast<double>(layout().tensor); }
  double inner() const { return static_cast<double>(model().intermediate_size) / tensor(); }
  /// A collective in chunks needs a kernel more, whether it copies or not.
  double copied_passes() const {
    const CommunicationHabits& habits = software().communication;
    if (habits.tensor_copy_passes == 0 && !habits.chunks_tensor_parallel) return 0;
    return kernels_.stream(habits.tensor_copy_passes * 2 * tokens_ * hidden(), 1);
  }

  double computed_forward() const {
    return times_.products.forward + times_.quantization.forward + times_.attention.forward + times_.streams.forward;
  }
  double computed_backward() const {
    return times_.products.backward + times_.weight_products + times_.accumulation + times_.quantization.backward +
           times_.attention.backward + times_.streams.backward;
  }
  double exposed_forward() const { return times_.tensor_communication.forward + times_.context_communication.forward; }

  /// Returns a product of a linear layer, whose operands may be quantized.
  Product quantized(Product product) const {
    product.precision = layout().precision;
    product.quantization = layout().quantization;
    return product;
  }

  double forward_efficiency() const {
    const bool by_row = layout().quantization == Quantization::rowwise;
    return by_row ? setup_.cluster.quantization.rowwise_efficiency : 1;
  }

  double weight_gradient(double outputs, double inputs) const {
    Product sizes = quantized(weight_gradient_sizes(outputs, inputs, tokens_));
    sizes.output_bytes = software().kernels.weight_gradient_bytes;
    return kernels_.weight_gradient(sizes);
  }

  void time_products() {
    for (std::size_t i = 0; i < linears_.size(); ++i) {
      const auto [n, k] = linears_[i];
      forward_[i] = kernels_.product(quantized({.m = tokens_, .n = n, .k = k})) / forward_efficiency();
      inputs_[i] = kernels_.product(quantized({.m = tokens_, .n = k, .k = n}));
      if (!layout().adapters_only) weights_[i] = weight_gradient(n, k);
      num_weights_ += n * k;
    }
    times_.products = {.forward = sum(forward_), .backward = sum(inputs_)};
    times_.weight_products = sum(weights_);
    if (software().kernels.accumulation_bytes > 0 && !layout().adapters_only)
      times_.accumulation = kernels_.stream(num_weights_ * software().kernels.accumulation_bytes);
  }

  void time_quantization() {
    if (layout().quantization == Quantization::none) return;
    const double bytes = setup_.cluster.quantization.at(layout().quantization);
    double inputs = 0;
    double outputs = 0;
    for (const Linear& linear : linears_) {
      inputs += linear.inputs;
      outputs += linear.outputs;
    }
    // Weights are quantized once a step, or each time that they are gathered.
    const double times_a_step = layout().fully_sharded ? 1 : static_cast<double>(layout().num_micro_batches);
    quantized_inputs_ = kernels_.stream(tokens_ * inputs * bytes, 4);
    times_.quantization = {.forward = quantized_inputs_ + kernels_.stream(num_weights_ * bytes / times_a_step, 4),
                           .backward = kernels_.stream(tokens_ * outputs * bytes, 4)};
    if (layout().quantization != Quantization::rowwise) return;
    // Products of gradients have one scale for each tensor; a kernel then rescales each one's output by rows.
    const double rescaled = setup_.cluster.quantization.rowwise_rescale_bytes * (tokens_ * inputs + num_weights_);
    times_.quantization.backward += kernels_.stream(rescaled, 8);
  }

  void time_attention() {
    const double length = static_cast<double>(model().sequence_length);
    const double own = length / static_cast<double>(layout().context);
    const double heads = static_cast<double>(layout().micro_batch * model().num_heads) / tensor();
    if (software().has_fused_attention()) {
      times_.attention = kernels_.attention(model(), heads, own, length);
      return;
    }
    const auto size = static_cast<double>(model().size_of_head());
    const Precision precision = layout().is_quantized() ? Precision::bf16 : layout().precision;
    const double products =
        kernels_.product({.m = own, .n = own, .k = size, .batch = heads, .precision = precision, .aligned_to = size}) +
        kernels_.product({.m = own, .n = size, .k = own, .batch = heads, .precision = precision, .aligned_to = size});
    const double scores = heads * own * own;
    times_.attention = {.forward = products + softmax(software().forward, scores),
                        .backward = 2 * products + softmax(software().backward, scores)};
  }

  double softmax(const StreamCounts& counts, double scores) const {
    if (has_fused_softmax()) return kernels_.stream(scores * counts.softmax_bytes, 2);
    return kernels_.stream(scores * (counts.softmax_bytes + counts.separate_softmax_bytes), 4);
  }

  /// Megatron's fused_softmax.py has a kernel for these sizes alone.
  bool has_fused_softmax() const {
    const std::int64_t length = model().sequence_length / layout().context;
    const std::int64_t heads = layout().micro_batch * model().num_heads / layout().tensor;
    return length > 16 && length <= 2048 && length % 4 == 0 && heads % 4 == 0;
  }

  double stream_of(const StreamCounts& counts) const {
    const double bytes = 2 * tokens_ *
                         (counts.hidden_passes * hidden() / setup_.token_ranks() + counts.inner_passes * inner() +
                          counts.projection_passes * linears_[0].outputs);
    return kernels_.stream(bytes, counts.stream_kernels);
  }

  void time_streams() {
    times_.streams = {.forward = stream_of(software().forward), .backward = stream_of(software().backward)};
  }

  void time_tensor_ranks() {
    times_.tensor_communication = layout().sequence_parallel ? shared_tokens() : summed_outputs();
  }

  /// Each collective of a layer whose ranks all keep all tokens is a sum.
  ForwardBackward summed_outputs() const {
    const double sum = collectives_.sum(2 * tokens_ * hidden(), setup_.tensor_group());
    ForwardBackward exposed{.forward = 2 * sum, .backward = 2 * sum};
    if (software().communication.hides_sums)
      exposed.backward = std::max(sum * 0.1, sum - weights_[0]) + std::max(sum * 0.1, sum - weights_[2]);
    return exposed;
  }

  ForwardBackward shared_tokens() const {
    const CommunicationHabits& habits = software().communication;
    const double gathered_bytes = habits.tensor_gather_bytes(layout().precision);
    const double gather = collectives_.gather(gathered_bytes * tokens_ * hidden(), setup_.tensor_group());
    const double scatter = collectives_.scatter(2 * tokens_ * hidden(), setup_.tensor_group());
    const double copies = 4 * copied_passes();
    if (habits.chunks_tensor_parallel) {
      // The first chunk of a collective is exposed, and the others hide behind the product.
      const auto exposed = [&](double collective, double product) {
        const double hidden = (tensor() - 1) / tensor();
        return collective / tensor() + std::max(0.0, (collective - product) * hidden);
      };
      // A product with scales by row is not fused with the gather of its input (pytorch issue 149990).
      const auto exposed_gather = [&](double product) {
        return layout().quantization == Quantization::rowwise ? gather : exposed(gather, product);
      };
      return {.forward = copies + exposed_gather(forward_[0]) + exposed(scatter, forward_[1]) +
                         exposed_gather(forward_[2]) + exposed(scatter, forward_[3]),
              .backward = copies + exposed_gather(inputs_[1]) + exposed(scatter, inputs_[0] + weights_[0]) +
                          exposed_gather(inputs_[3]) + exposed(scatter, inputs_[2] + weights_[2])};
    }
    if (!habits.hides_reductions)
      return {.forward = 2 * (gather + scatter) + copies, .backward = 2 * (gather + scatter) + copies};
    // The saved input is gathered again behind the gradient of the input, which is scattered behind that of the
    // weights.
    const double hidden = std::max(0.0, gather - inputs_[0]) + std::max(0.0, gather - inputs_[2]) +
                          std::max(0.0, scatter - weights_[0]) + std::max(0.0, scatter - weights_[2]);
    return {.forward = 2 * (gather + scatter) + copies, .backward = 2 * gather + hidden};
  }

  void time_context_ranks() {
    times_.context_communication = software().communication.merges_context_blocks ? merged_blocks() : gathered_keys();
  }

  /// Keys and values of all tokens pass behind attention.
  ForwardBackward gathered_keys() const {
    const RankGroup group = setup_.context_group();
    const double bytes = 2 * tokens_ * 2 * static_cast<double>(model().kv_size()) / tensor();
    const double gather = collectives_.gather(bytes * group.num_ranks, group);
    return {.forward = std::max(gather * 0.1, gather - times_.attention.forward),
            .backward = std::max(gather * 0.2, 2 * gather - times_.attention.backward)};
  }

  /// Attention is computed by blocks, one of each rank's keys, and merged in fp32. Keys and values have all query heads
  /// by then. They are gathered behind the first block. Their gradients pass from rank to rank behind the others.
  ForwardBackward merged_blocks() const {
    const RankGroup group = setup_.context_group();
    const double features = tokens_ * static_cast<double>(model().query_size()) / tensor();
    const double gather = collectives_.gather(2 * 2 * features * group.num_ranks, group);
    const double turn = collectives_.transfer(2 * 4 * features, group.num_ranks > group.ranks_within_node);
    const double turns = group.num_ranks - 1;
    const auto merge = [&](const StreamCounts& counts) {
      return kernels_.stream(turns * features * counts.context_merge_bytes, turns * counts.context_merge_kernels);
    };
    const double block = times_.attention.forward / group.num_ranks;
    const double block_backward = times_.attention.backward / group.num_ranks;
    const auto exposed = [](double sent, double hiding) { return std::max(0.1 * sent, sent - hiding); };
    return {.forward = exposed(gather, block) + merge(software().forward),
            .backward = exposed(gather, block_backward) + turns * exposed(turn, block_backward) + turn +
                        merge(software().backward)};
  }

  double recomputation() const {
    const double whole = computed_forward() + exposed_forward();
    if (layout().num_recomputed_layers > 0)
      return whole * static_cast<double>(layout().num_recomputed_layers) / static_cast<double>(model().num_layers);
    switch (layout().recomputation) {
      case Recomputation::none:
        return 0;
      case Recomputation::full:
        return software().kernels.recomputes_only_needed ? whole - last_product() : whole;
      case Recomputation::attention:
        return software().has_fused_attention() ? 0 : times_.attention.forward;
      case Recomputation::per_op:
        return recomputed_operators();
      case Recomputation::activation:
        return kernels_.stream(2 * tokens_ * 2 * inner(), 1);
    }
    return 0;
  }

  /// Time of the layer's last product and of its reduction, whose result no backward pass reads.
  double last_product() const {
    return forward_[3] + (layout().tensor > 1 ? times_.tensor_communication.forward / 4 : 0);
  }

  double recomputed_operators() const {
    const bool all_products =
        layout().quantization != Quantization::none && software().kernels.recomputes_quantized_products;
    double time = times_.streams.forward;
    time += all_products ? times_.products.forward + quantized_inputs_
                         : (forward_[0] + forward_[2]) * software().kernels.recomputed_products;
    if (layout().tensor > 1)
      time += 2 * (collectives_.gather(2 * tokens_ * hidden(), setup_.tensor_group()) + copied_passes());
    return time;
  }

  double num_kernels(const StreamCounts& counts, double of_unfused_attention) const {
    double number = counts.kernels + (layout().tensor > 1 ? 4 : 0);
    if (software().has_fused_attention()) return number;
    number += of_unfused_attention;
    return has_fused_softmax() ? number : number + counts.separate_softmax_kernels;
  }
  double num_kernels_forward() const { return num_kernels(software().forward, 6); }
  double num_kernels_backward() const { return num_kernels(software().backward, 10); }

  void time_waits() {
    const double wait = setup_.cluster.surface.synchronization_us * 1e-6;
    times_.streams.forward += num_kernels_forward() * wait;
    times_.streams.backward += num_kernels_backward() * wait;
  }

  void time_launches() {
    const double again = layout().recomputation == Recomputation::full ? num_kernels_forward() : 0;
    times_.launches = {.forward = num_kernels_forward() * kernels_.launch_time(),
                       .backward = (num_kernels_backward() + again) * kernels_.launch_time()};
  }

  const Setup& setup_;
  Kernels kernels_;
  Collectives collectives_;
  Linears linears_;
  double tokens_;
  double num_weights_ = 0;
  double quantized_inputs_ = 0;
  std::array<double, 4> forward_{};
  std::array<double, 4> inputs_{};
  std::array<double, 4> weights_{};
  LayerTimes times_;
};

}  // namespace

LayerTimes layer_times(const Setup& setup) {
  return LayerModel(setup).times();
}

ForwardBackward head_times(const Setup& setup) {
  const auto& [model, layout, cluster] = setup;
  const Kernels kernels(cluster);
  const Collectives collectives(cluster);
  const auto hidden = static_cast<double>(model.hidden_size);
  const double rows = std::floor(setup.tokens() * model.predicted_share);
  double vocabulary = static_cast<double>(model.vocab_size) / static_cast<double>(layout.tensor);
  vocabulary = cluster.software.kernels.pads_vocabulary ? std::ceil(vocabulary / 128) * 128 : std::ceil(vocabulary);
  const Precision precision = layout.is_quantized() ? Precision::bf16 : layout.precision;
  const double logits = rows * vocabulary;
  ForwardBackward times{.forward = kernels.product({.m = rows, .n = vocabulary, .k = hidden, .precision = precision}) +
                                   kernels.stream(logits * cluster.software.forward.loss_bytes, 8),
                        .backward = kernels.product({.m = rows, .n = hidden, .k = vocabulary, .precision = precision}) +
                                    kernels.stream(logits * cluster.software.backward.loss_bytes, 4)};
  if (!layout.adapters_only) {
    Product weights = weight_gradient_sizes(vocabulary, hidden, rows);
    weights.precision = precision;
    weights.output_bytes = 4;
    times.backward += kernels.product(weights);
  }
  if (layout.tensor == 1) return times;
  const RankGroup group = setup.tensor_group();
  if (layout.sequence_parallel) {
    times.forward += 3 * collectives.gather(4 * rows, group) + collectives.gather(2 * rows * hidden, group);
    times.backward += collectives.scatter(2 * rows * hidden, group);
  } else {
    times.forward += 3 * collectives.sum(4 * rows, group);
    times.backward += collectives.sum(2 * rows * hidden, group);
  }
  return times;
}

ForwardBackward embedding_times(const Setup& setup) {
  const auto& [model, layout, cluster] = setup;
  const Kernels kernels(cluster);
  const double bytes = 2 * setup.tokens() * static_cast<double>(model.hidden_size);
  ForwardBackward times{.forward = kernels.stream(bytes * (model.position_embeddings ? 7 : 4), 3),
                        .backward = kernels.stream(
                            bytes * 4 + setup.embedding_parameters() * cluster.software.kernels.accumulation_bytes, 4)};
  if (layout.tensor == 1) return times;
  const Collectives collectives(cluster);
  times.forward += layout.sequence_parallel ? collectives.scatter(bytes, setup.tensor_group())
                                            : collectives.sum(bytes, setup.tensor_group());
  return times;
}

}  // namespace trainctl::cluster

// Networks, layouts and clusters of published runs.
#pragma once

#include <string>

#include "cluster/layer.h"
#include "cluster/tables.h"

namespace trainctl::cluster {

inline Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  return {.num_layers = layers,
          .hidden_size = hidden,
          .num_heads = heads,
          .num_kv_heads = heads,
          .intermediate_size = 4 * hidden,
          .vocab_size = 51200,
          .sequence_length = 2048};
}

inline Transformer llama3(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t inner) {
  return {.num_layers = layers,
          .hidden_size = hidden,
          .num_heads = heads,
          .num_kv_heads = 8,
          .intermediate_size = inner,
          .gated = true,
          .biases = false,
          .position_embeddings = false,
          .vocab_size = 128256,
          .sequence_length = 8192,
          .tied = false};
}

/// A run with what it refers to.
struct Run {
  Transformer model;
  Layout layout;
  Cluster machines;

  Setup setup() const { return {.model = model, .layout = layout, .cluster = machines}; }
};

inline Cluster machines(const std::string& device, const std::string& software) {
  return cluster_of(builtin_tables(), {.device = device, .software = software});
}

/// GPT of 310 billion parameters on 1,920 A100 (https://arxiv.org/abs/2104.04473, table 1).
inline Run gpt_310b() {
  return {.model = gpt(96, 16384, 128),
          .layout = {.data = 15,
                     .tensor = 8,
                     .pipeline = 16,
                     .stages_per_rank = 2,
                     .schedule = ScheduleKind::interleaved,
                     .num_micro_batches = 144,
                     .recomputation = Recomputation::full,
                     .precision = Precision::fp16},
          .machines = machines("a100_80", "megatron")};
}

}  // namespace trainctl::cluster

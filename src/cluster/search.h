// The layouts of a number of devices: which are possible, which fit into memory, and which are fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/memory.h"
#include "cluster/step.h"

namespace trainctl::cluster {

/// What is searched. The work of a step is the same for every layout.
struct SearchRequest {
  const Transformer& model;
  const Cluster& cluster;
  std::int64_t world = 1;
  std::int64_t global_batch = 1;  // sequences of a step
  double memory_bytes = 0;        // of each device
  Precision precision = Precision::bf16;
  std::size_t num_best = 10;
};

struct Candidate {
  Layout layout;
  StepTime step;
  MemoryUse memory;  // of the fullest rank

  double tokens_per_second(const Transformer& model) const {
    return static_cast<double>(layout.global_batch() * model.sequence_length) / step.total;
  }
};

struct SearchResult {
  std::vector<Candidate> best;  // the fastest first
  std::int64_t num_layouts = 0;
  std::int64_t num_fitting = 0;
  std::int64_t num_simulated = 0;  // the others can't be faster than the best ones
  std::optional<Layout> smallest;  // needs the least memory of all
  double smallest_bytes = 0;
};

/// Searches all layouts that this program can run. Tensor ranks stay within a node. Micro-batches, schedules, ZeRO
/// stages and recomputation vary as far as the sizes allow. GPipe is left out: it takes as long as 1F1B and keeps more.
/// Throws Error if no layout divides the world, the batch and the network.
SearchResult search_layouts(const SearchRequest& request);

/// Throws Error, with what is known, unless the network can be divided so.
void check_layout(const Transformer& model, const Layout& layout);

/// Throws Error for a topology that contradicts itself. Nodes must divide the world, and no node may be larger than
/// what the network joins.
void check_topology(const Network& network, std::int64_t world, std::int64_t node_size);

/// Share of the tokens per second that one row of the pipeline has, for itself, of what a row has among all copies.
double scaling_efficiency(const Setup& setup, const StepTime& step);

}  // namespace trainctl::cluster

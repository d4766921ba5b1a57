// Traces that hold for one batch size and one length, as graphs that hold for all.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>

namespace trainctl::exporters {

/// What a graph was traced at.
struct AxisSizes {
  std::int64_t batch = 0;
  std::int64_t length = 0;  // tokens; of images not used
};

struct SizedGraph {
  std::shared_ptr<torch::jit::Graph> graph;  // its first input is the module, its second the values [B, T, ...]
  AxisSizes sizes;
};

/// Replaces the constants of `graph` that differ in `other`, a trace of the same network at other sizes. Each becomes a
/// product of a constant and sizes of the input (aten::size), plus -1, 0 or 1. Any other difference is an Error that
/// names the operator and its block.
void free_axes(const SizedGraph& graph, const SizedGraph& other);

/// "aten::linear of layer1.0"
std::string describe(const torch::jit::Node& node);

}  // namespace trainctl::exporters

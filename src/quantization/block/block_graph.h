// What a block of a network for images computes, as a list of operators that have an eight-bit form.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/model.h"
#include "quantization/backend.h"

namespace trainctl::quantization {

struct ConvolutionOp {
  at::Tensor weight;  // float [out, in / groups, k, k]
  at::Tensor bias;    // float [out], or undefined
  ConvolutionShape shape;
  at::Tensor folded{};  // float [out]: what each channel was multiplied with; undefined: 1
};
struct LinearOp {
  at::Tensor weight;  // float [out, in]
  at::Tensor bias;
  at::Tensor folded{};  // as a convolution's
};
struct BatchNormOp {
  NormStatistics norm;
};
struct AddOp {};
struct MultiplyOp {};
struct ConcatOp {
  std::int64_t dim = 1;
};
/// A layer of the block that stays in floats.
struct LayerOp {
  model::UnaryLayer* layer;
};
struct ReluOp {};
struct MaxPoolOp {
  std::vector<std::int64_t> kernel;
  ConvolutionShape shape;
};
struct AveragePoolOp {  // over all pixels: [B, C, H, W] -> [B, C, 1, 1]
};
struct FlattenOp {
  std::int64_t first_dim = 1;
};
struct DropOp {  // its input, in evaluation
};

using Computation = std::variant<ConvolutionOp, LinearOp, BatchNormOp, AddOp, MultiplyOp, ConcatOp, LayerOp, ReluOp,
                                 MaxPoolOp, AveragePoolOp, FlattenOp, DropOp>;

struct BlockOp {
  Computation what;
  std::vector<std::size_t> inputs;  // values, by number; 0 is the block's input
  std::size_t output = 0;
  std::string name;         // of what has levels of its own, inside the block: "conv1", "bn2", "add0", "mean0"
  bool then_relu = false;   // what is given is relu of the result
  std::string norm_name{};  // the BatchNorm that is folded in
};

struct BlockGraph {
  std::vector<BlockOp> ops;
  std::size_t num_values = 1;
  std::size_t output = 0;
};

struct CapturedBlock {
  model::UnaryLayer* layer;
  std::string name;  // in lists of state
  std::optional<BlockGraph> graph{};
};

/// Returns the model's blocks, from the first one up to where one reads more than a tensor. Each has its fused() graph,
/// seen by running it on `example` in evaluation. The weights are the block's own. A layer that computes something else
/// than the operators listed above is a LayerOp. Outside of layers, such an operator leaves the block without a graph.
/// So does a norm of each token: it reads sums of which few features are far larger than the others
/// (https://arxiv.org/abs/2208.07339). Levels for all of them are too coarse for the rest.
std::vector<CapturedBlock> capture_blocks(model::Model& model, const at::Tensor& example);

/// Returns the same function with BatchNorm folded into the convolution or linear layer before it, and relu into the
/// operator whose only use it is. The weights of folded operators are copies.
BlockGraph fused(BlockGraph graph);

/// Returns whether the result has its input's levels. Means have their own: they lie closer together than pixels.
bool passes_levels(const Computation& what);
/// Returns whether it is a convolution or a linear layer.
bool is_product(const Computation& what);

/// Returns for each value the one whose levels it has: its own number, but behind operators that pass levels on.
std::vector<std::size_t> sources_of(const BlockGraph& graph);
/// Returns for each value the one whose range it has. Means, and what ReLU leaves, have a narrower one.
std::vector<std::size_t> ranges_of(const BlockGraph& graph);
/// How often each value is read; the block's output once more.
std::vector<std::size_t> count_uses(const BlockGraph& graph);

/// One operator in float.
at::Tensor compute(const BlockOp& op, const std::vector<at::Tensor>& inputs);

}  // namespace trainctl::quantization

#include "quantization/block/block_graph.h"

#include <ATen/Context.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/overloaded.h"

namespace trainctl::quantization {
namespace {

/// Returns the only op that reads the value; null if several do, or the value is the block's result.
BlockOp* only_use(BlockGraph& graph, std::size_t value) {
  BlockOp* use = nullptr;
  for (BlockOp& op : graph.ops)
    for (const std::size_t input : op.inputs)
      if (input == value) {
        if (use != nullptr) return nullptr;
        use = &op;
      }
  return graph.output == value ? nullptr : use;
}

void remove(BlockGraph& graph, const BlockOp* op) {
  std::erase_if(graph.ops, [op](const BlockOp& other) { return &other == op; });
}

/// Puts relu before max pooling, where the convolution computes it at no cost: max(relu(x)) = relu(max(x)).
void lift_relu(BlockGraph& graph) {
  for (BlockOp& pool : graph.ops) {
    if (!std::holds_alternative<MaxPoolOp>(pool.what)) continue;
    BlockOp* relu = only_use(graph, pool.output);
    if (relu == nullptr || !std::holds_alternative<ReluOp>(relu->what)) continue;
    std::swap(pool.what, relu->what);
  }
}

/// Multiplies the rows of a product's weight by what the norm multiplies its results by.
template <class Product>
void fold(Product& product, const NormStatistics& s) {
  const at::Tensor factor = s.variance.add(s.epsilon).rsqrt().mul(s.weight);
  const at::Tensor bias = product.bias.defined() ? product.bias : at::zeros_like(s.mean);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(product.weight.dim()), 1);
  rows[0] = -1;
  product.weight = product.weight.mul(factor.view(rows));
  product.folded = factor;
  product.bias = bias.sub(s.mean).mul(factor).add(s.bias);
}

/// Folds a norm into the product before it: https://arxiv.org/abs/1712.05877, section 3.2.
bool fold_one_norm(BlockGraph& graph) {
  for (BlockOp& op : graph.ops) {
    auto* convolution = std::get_if<ConvolutionOp>(&op.what);
    auto* linear = std::get_if<LinearOp>(&op.what);
    if ((convolution == nullptr && linear == nullptr) || op.then_relu) continue;
    BlockOp* next = only_use(graph, op.output);
    const auto* norm = next == nullptr ? nullptr : std::get_if<BatchNormOp>(&next->what);
    if (norm == nullptr) continue;
    if (convolution != nullptr)
      fold(*convolution, norm->norm);
    else
      fold(*linear, norm->norm);
    op.norm_name = next->name;
    op.output = next->output;
    remove(graph, next);
    return true;
  }
  return false;
}

bool takes_relu(const BlockOp& op) {
  return std::holds_alternative<ConvolutionOp>(op.what) || std::holds_alternative<LinearOp>(op.what) ||
         std::holds_alternative<AddOp>(op.what) || std::holds_alternative<BatchNormOp>(op.what);
}

bool fuse_one_relu(BlockGraph& graph) {
  for (BlockOp& op : graph.ops) {
    if (!takes_relu(op) || op.then_relu) continue;
    BlockOp* next = only_use(graph, op.output);
    if (next == nullptr || !std::holds_alternative<ReluOp>(next->what)) continue;
    op.then_relu = true;
    op.output = next->output;
    remove(graph, next);
    return true;
  }
  return false;
}

/// Removes an op that does nothing in evaluation.
bool remove_one_drop(BlockGraph& graph) {
  for (BlockOp& op : graph.ops) {
    if (!std::holds_alternative<DropOp>(op.what)) continue;
    const std::size_t input = op.inputs[0];
    const std::size_t output = op.output;
    remove(graph, &op);
    for (BlockOp& other : graph.ops) std::replace(other.inputs.begin(), other.inputs.end(), output, input);
    if (graph.output == output) graph.output = input;
    return true;
  }
  return false;
}

at::Tensor compute_alone(const BlockOp& op, const std::vector<at::Tensor>& inputs) {
  const at::Tensor& x = inputs[0];
  return std::visit(core::Overloaded{
                        [&](const ConvolutionOp& c) {
                          return at::conv2d(x, c.weight, c.bias.defined() ? std::optional(c.bias) : std::nullopt,
                                            c.shape.stride, c.shape.padding, c.shape.dilation, c.shape.groups);
                        },
                        [&](const LinearOp& l) {
                          return at::linear(x, l.weight, l.bias.defined() ? std::optional(l.bias) : std::nullopt);
                        },
                        [&](const BatchNormOp& b) {
                          return at::batch_norm(x, b.norm.weight, b.norm.bias, b.norm.mean, b.norm.variance,
                                                /*training=*/false,
                                                /*momentum=*/0, b.norm.epsilon, at::globalContext().userEnabledCuDNN());
                        },
                        [&](const AddOp&) { return x.add(inputs[1]); },
                        [&](const MultiplyOp&) { return x.mul(inputs[1]); },
                        [&](const ConcatOp& c) { return at::cat(inputs, c.dim); },
                        [&](const LayerOp& l) { return l.layer->forward(x); },
                        [&](const ReluOp&) { return at::relu(x); },
                        [&](const MaxPoolOp& m) {
                          return at::max_pool2d(x, m.kernel, m.shape.stride, m.shape.padding, m.shape.dilation);
                        },
                        [&](const AveragePoolOp&) {
                          return at::adaptive_avg_pool2d(x, {1, 1});
                        },
                        [&](const FlattenOp& f) { return x.flatten(f.first_dim); },
                        [&](const DropOp&) { return x; },
                    },
                    op.what);
}

/// Returns for each value the one from which operators that pass lead to it.
std::vector<std::size_t> first_values(const BlockGraph& graph, const std::function<bool(const BlockOp&)>& passes) {
  std::vector<std::size_t> firsts(graph.num_values);
  std::iota(firsts.begin(), firsts.end(), std::size_t{0});
  for (const BlockOp& op : graph.ops)
    if (passes(op)) firsts[op.output] = firsts[op.inputs[0]];
  return firsts;
}

}  // namespace

std::vector<std::size_t> sources_of(const BlockGraph& graph) {
  return first_values(graph, [](const BlockOp& op) { return passes_levels(op.what); });
}
std::vector<std::size_t> ranges_of(const BlockGraph& graph) {
  return first_values(graph, [](const BlockOp& op) {
    return std::holds_alternative<MaxPoolOp>(op.what) || std::holds_alternative<FlattenOp>(op.what);
  });
}

std::vector<std::size_t> count_uses(const BlockGraph& graph) {
  std::vector<std::size_t> uses(graph.num_values, 0);
  for (const BlockOp& op : graph.ops)
    for (const std::size_t input : op.inputs) ++uses[input];
  ++uses[graph.output];
  return uses;
}

bool passes_levels(const Computation& what) {
  return std::holds_alternative<MaxPoolOp>(what) || std::holds_alternative<FlattenOp>(what) ||
         std::holds_alternative<ReluOp>(what);
}
bool is_product(const Computation& what) {
  return std::holds_alternative<ConvolutionOp>(what) || std::holds_alternative<LinearOp>(what);
}

BlockGraph fused(BlockGraph graph) {
  while (remove_one_drop(graph)) {
  }
  lift_relu(graph);
  while (fold_one_norm(graph)) {
  }
  while (fuse_one_relu(graph)) {
  }
  return graph;
}

at::Tensor compute(const BlockOp& op, const std::vector<at::Tensor>& inputs) {
  const at::Tensor result = compute_alone(op, inputs);
  return op.then_relu ? at::relu(result) : result;
}

}  // namespace trainctl::quantization

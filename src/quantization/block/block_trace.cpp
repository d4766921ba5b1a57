#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "model/layer_list/operators.h"
#include "model/layers/layer_norm.h"
#include "model/layers/rms_norm.h"
#include "quantization/block/block_graph.h"

namespace trainctl::quantization {
namespace {

using torch::jit::Node;
using torch::jit::Value;

namespace tracer = torch::jit::tracer;

/// A part of a block that has no eight-bit form here.
struct Unsupported {
  std::string what;
};

/// A layer of a block that is one node of the block's graph if it can't be read from its operators.
struct Leaf {
  std::string name;
  model::UnaryLayer* layer;
};

/// Returns the layers below which no other computes from one tensor to one tensor.
std::vector<Leaf> leaves_of(model::UnaryLayer& block) {
  std::vector<Leaf> leaves;
  block.visit_layers([&](const std::string& name, model::Layer& layer) {
    auto* unary = dynamic_cast<model::UnaryLayer*>(&layer);
    if (unary == nullptr || unary == &block) return;
    bool is_leaf = true;
    layer.visit_layers([&](const std::string&, model::Layer& below) {
      if (&below != &layer && dynamic_cast<model::UnaryLayer*>(&below) != nullptr) is_leaf = false;
    });
    if (!is_leaf) return;
    leaves.push_back({name, unary});
    if (dynamic_cast<model::LayerScale*>(&layer) != nullptr)  // which has its list's name, as others of the list have
      layer.visit_parameters([&](const std::string& own, model::TensorDecl&) { leaves.back().name = own; }, name);
  });
  return leaves;
}

constexpr const char* kLeaf = "trainctl::leaf";

/// Declares the operator that stands for a leaf in graphs. It is never run.
TORCH_LIBRARY_FRAGMENT(trainctl, library) {
  library.def("leaf(Tensor input, int number) -> Tensor");
}

/// A reader that turns a traced graph into a BlockGraph.
class Reader {
 public:
  Reader(model::UnaryLayer& block, const std::vector<Leaf>& leaves) : leaves_(leaves) {
    const auto enter = [&](const std::string& name, model::TensorDecl& decl) { names_[decl.value.data_ptr()] = name; };
    block.visit_parameters(enter);
    block.visit_buffers(enter);
  }

  BlockGraph read(const torch::jit::Graph& graph) {
    values_[graph.inputs().at(0)] = 0;
    for (const Node* node : graph.nodes())
      if (!is_plumbing(*node)) add(*node);
    result_.output = number(graph.outputs().at(0));
    return std::move(result_);
  }

 private:
  static bool is_plumbing(const Node& node) {
    return node.kind() == c10::prim::Constant || node.kind() == c10::prim::ListConstruct;
  }

  void add(const Node& node) {
    const std::string kind = node.kind().toUnqualString();
    if (node.kind() == c10::Symbol::fromQualString(kLeaf)) {
      const Leaf& leaf = leaves_.at(static_cast<std::size_t>(ivalue(at(node, "number")).toInt()));
      return append(node, "input", LayerOp{leaf.layer}, leaf.name);
    }
    if (node.kind().ns() != c10::namespaces::aten) throw Unsupported{node.kind().toQualString()};
    if (kind == "conv2d" || kind == "convolution" || kind == "_convolution") return add_convolution(node);
    if (kind == "linear")
      return append(node, "input", LinearOp{constant(node, "weight"), constant(node, "bias")},
                    layer_of(node, "weight"));
    if (kind == "batch_norm") return add_batch_norm(node);
    if (kind == "relu") return append(node, "self", ReluOp{});
    if (kind == "max_pool2d") return add_max_pool(node);
    if (kind == "dropout") return append(node, "input", DropOp{});
    if (kind == "add") return add_sum(node);
    if (kind == "mul") return combine(node, "mul", MultiplyOp{}, {at(node, "self"), at(node, "other")});
    if (kind == "cat") {
      const auto tensors = at(node, "tensors")->node()->inputs();
      return combine(node, "cat", ConcatOp{ivalue(at(node, "dim")).toInt()}, {tensors.begin(), tensors.end()});
    }
    if (kind == "mean") return add_mean(node);
    if (kind == "flatten") return add_flatten(node);
    if (kind == "adaptive_avg_pool2d") {
      if (integers(node, "output_size") != std::vector<std::int64_t>{1, 1}) throw Unsupported{kind};
      return combine(node, "mean", AveragePoolOp{}, {at(node, "self")});
    }
    throw Unsupported{kind};
  }

  void add_convolution(const Node& node) {
    if (const Value* transposed = find(node, "transposed"); transposed != nullptr && ivalue(transposed).toBool())
      throw Unsupported{"transposed convolution"};
    ConvolutionOp op{.weight = constant(node, "weight"),
                     .bias = constant(node, "bias"),
                     .shape = {.stride = pair(node, "stride"),
                               .padding = pair(node, "padding"),
                               .dilation = pair(node, "dilation"),
                               .groups = ivalue(at(node, "groups")).toInt()}};
    append(node, "input", std::move(op), layer_of(node, "weight"));
  }

  void add_batch_norm(const Node& node) {
    const NormStatistics norm{.weight = constant(node, "weight"),
                              .bias = constant(node, "bias"),
                              .mean = constant(node, "running_mean"),
                              .variance = constant(node, "running_var"),
                              .epsilon = ivalue(at(node, "eps")).toDouble()};
    append(node, "input", BatchNormOp{norm}, layer_of(node, "weight"));
  }

  void add_max_pool(const Node& node) {
    if (ivalue(at(node, "ceil_mode")).toBool()) throw Unsupported{"max_pool2d with ceil_mode"};
    MaxPoolOp op{
        .kernel = pair(node, "kernel_size"),
        .shape = {
            .stride = pair(node, "stride"), .padding = pair(node, "padding"), .dilation = pair(node, "dilation")}};
    if (op.shape.stride.empty()) op.shape.stride = op.kernel;
    if (op.kernel == std::vector<std::int64_t>{1, 1}) throw Unsupported{"max_pool2d of one pixel"};  // QNNPACK has none
    append(node, "self", std::move(op));
  }

  void add_sum(const Node& node) {
    if (!ivalue(at(node, "alpha")).toScalar().equal(1)) throw Unsupported{"add with alpha"};
    combine(node, "add", AddOp{}, {at(node, "self"), at(node, "other")});
  }

  void combine(const Node& node, const std::string& name, Computation what, const std::vector<const Value*>& inputs) {
    BlockOp op{.what = std::move(what), .name = numbered(name)};
    for (const Value* input : inputs) op.inputs.push_back(number(input));
    push(node, std::move(op));
  }

  /// Returns the name with a number, apart from names of other ops and of layers.
  std::string numbered(const std::string& name) const {
    const auto has_part = [](const std::string& path, const std::string& part) {
      return ("." + path + ".").find("." + part + ".") != std::string::npos;
    };
    for (int number = 0;; ++number) {
      const std::string found = name + std::to_string(number);
      const bool is_taken =
          std::ranges::any_of(result_.ops, [&](const BlockOp& op) { return op.name == found; }) ||
          std::ranges::any_of(names_, [&](const auto& named) { return has_part(named.second, found); }) ||
          std::ranges::any_of(leaves_, [&](const Leaf& leaf) { return has_part(leaf.name, found); });
      if (!is_taken) return found;
    }
  }

  /// Reads the mean over an image's pixels.
  void add_mean(const Node& node) {
    if (integers(node, "dim") != std::vector<std::int64_t>{2, 3} || !ivalue(at(node, "dtype")).isNone())
      throw Unsupported{"mean"};
    combine(node, "mean", AveragePoolOp{}, {at(node, "self")});
    if (ivalue(at(node, "keepdim")).toBool()) return;
    push(node, {.what = FlattenOp{1}, .inputs = {values_.at(node.output())}});
  }

  void add_flatten(const Node& node) {
    if (ivalue(at(node, "end_dim")).toInt() != -1) throw Unsupported{"flatten"};
    append(node, "self", FlattenOp{ivalue(at(node, "start_dim")).toInt()});
  }

  void append(const Node& node, const char* input, Computation what, std::string name = "") {
    push(node, {.what = std::move(what), .inputs = {number(at(node, input))}, .name = std::move(name)});
  }

  void push(const Node& node, BlockOp op) {
    op.output = result_.num_values++;
    values_[node.output()] = op.output;
    result_.ops.push_back(std::move(op));
  }

  std::size_t number(const Value* value) const {
    const auto found = values_.find(value);
    if (found == values_.end()) throw Unsupported{"a constant as an input"};
    return found->second;
  }

  static const Value* find(const Node& node, const char* argument) {
    const torch::jit::FunctionSchema& schema = node.schema();
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (schema.arguments()[i].name() == argument) return node.inputs()[i];
    return nullptr;
  }
  static const Value* at(const Node& node, const char* argument) {
    const Value* value = find(node, argument);
    if (value == nullptr) throw Unsupported{std::string(node.kind().toQualString()) + " without " + argument};
    return value;
  }
  static c10::IValue ivalue(const Value* value) {
    const std::optional<c10::IValue> constant = torch::jit::toIValue(value);
    if (!constant) throw Unsupported{"a value that isn't constant"};
    return *constant;
  }
  static std::vector<std::int64_t> integers(const Node& node, const char* argument) {
    const Value* value = at(node, argument);
    if (value->node()->kind() != c10::prim::ListConstruct) return ivalue(value).toIntVector();
    std::vector<std::int64_t> list;
    for (const Value* element : value->node()->inputs()) list.push_back(ivalue(element).toInt());
    return list;
  }
  /// Returns a value for each of two dims; one number stands for both.
  static std::vector<std::int64_t> pair(const Node& node, const char* argument) {
    std::vector<std::int64_t> list = integers(node, argument);
    if (list.size() == 1) list.push_back(list[0]);
    return list;
  }
  static at::Tensor constant(const Node& node, const char* argument) {
    const c10::IValue value = ivalue(at(node, argument));
    return value.isNone() ? at::Tensor() : value.toTensor();
  }
  /// Returns "conv1" of "conv1.weight".
  std::string layer_of(const Node& node, const char* argument) const {
    const auto found = names_.find(constant(node, argument).data_ptr());
    if (found == names_.end()) throw Unsupported{"weights that aren't the block's"};
    const std::size_t dot = found->second.rfind('.');
    return dot == std::string::npos ? "" : found->second.substr(0, dot);
  }

  const std::vector<Leaf>& leaves_;
  std::map<const void*, std::string> names_;
  std::map<const Value*, std::size_t> values_;
  BlockGraph result_;
};

std::shared_ptr<torch::jit::Graph> trace(const std::function<at::Tensor(const at::Tensor&)>& work,
                                         const at::Tensor& example) {
  const auto forward = [&](const torch::jit::Stack& inputs) -> torch::jit::Stack {
    const tracer::NoWarn quiet;
    return {work(inputs.at(0).toTensor())};
  };
  const auto no_name = [](const at::Tensor&) { return std::string(); };
  return tracer::trace({example}, forward, no_name, /*strict=*/true, /*force_outplace=*/true).first->graph;
}

/// A layer in a trace. Its operators are traced if a BlockGraph has them, else the layer is one node.
class TracedLeaf final : public model::LayerOverride {
 public:
  explicit TracedLeaf(std::size_t number) : number_(number) {}

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& input) override {
    const auto state = tracer::getTracingState();
    if (state == nullptr) return layer.compute(input);
    Value* const traced_input = state->getValue(input);
    tracer::setTracingState(nullptr);
    const bool is_read = is_readable(layer, input);
    const at::Tensor result = is_read ? at::Tensor() : layer.compute(input);
    tracer::setTracingState(state);
    if (is_read) return layer.compute(input);
    torch::jit::Graph& graph = *state->graph;
    Value* const number = graph.insertConstant(static_cast<std::int64_t>(number_));
    Node* const node = graph.insertNode(graph.create(c10::Symbol::fromQualString(kLeaf), {traced_input, number}));
    tracer::setValueTrace(result, node->output());
    return result;
  }

 private:
  static bool is_readable(model::UnaryLayer& layer, const at::Tensor& input) {
    if (dynamic_cast<model::LayerNorm*>(&layer) != nullptr || dynamic_cast<model::RmsNorm*>(&layer) != nullptr)
      throw Unsupported{"a norm of each token"};
    try {
      const auto graph = trace([&](const at::Tensor& x) { return layer.compute(x); }, input);
      Reader(layer, {}).read(*graph);
      return true;
    } catch (const Unsupported&) {
      return false;
    }
  }

  std::size_t number_;
};

std::optional<BlockGraph> capture(model::UnaryLayer& block, const at::Tensor& example) {
  // A tensor that wants gradients can't be a constant of a graph.
  std::vector<at::Tensor> trained;
  block.visit_parameters([&](const std::string&, model::TensorDecl& decl) {
    if (!decl.value.requires_grad()) return;
    trained.push_back(decl.value);
    decl.value.set_requires_grad(false);
  });
  const std::vector<Leaf> leaves = leaves_of(block);
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].layer->set_override(std::make_unique<TracedLeaf>(i));
  std::optional<BlockGraph> graph;
  try {
    graph = Reader(block, leaves).read(*trace([&](const at::Tensor& x) { return block.forward(x); }, example));
  } catch (const Unsupported&) {
  }
  for (const Leaf& leaf : leaves) leaf.layer->set_override(nullptr);
  for (const at::Tensor& tensor : trained) tensor.set_requires_grad(true);
  return graph;
}

}  // namespace

std::vector<CapturedBlock> capture_blocks(model::Model& model, const at::Tensor& example) {
  const at::NoGradGuard no_grad;
  std::map<const model::Layer*, std::string> names;
  model.visit_layers([&](const std::string& name, model::Layer& layer) { names[&layer] = name; });
  std::vector<CapturedBlock> blocks;
  at::Tensor value = example;
  for (const model::Block& block : model.blocks()) {
    auto* layer = dynamic_cast<model::UnaryLayer*>(block.layer);
    if (layer == nullptr) break;
    CapturedBlock& captured = blocks.emplace_back(layer, names.at(layer));
    if (std::optional<BlockGraph> graph = capture(*layer, value)) captured.graph = fused(std::move(*graph));
    value = layer->forward(value);
  }
  return blocks;
}

}  // namespace trainctl::quantization

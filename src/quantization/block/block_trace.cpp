#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <map>

#include "quantization/block/block_graph.h"

namespace trainctl::quantization {
namespace {

using torch::jit::Node;
using torch::jit::Value;

/// A part of a block that has no eight-bit form here.
struct Unsupported {
  std::string what;
};

/// A reader that turns a traced graph into a BlockGraph.
class Reader {
 public:
  explicit Reader(model::UnaryLayer& block) {
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
    if (kind == "flatten") return add_flatten(node);
    if (kind == "adaptive_avg_pool2d") {
      if (integers(node, "output_size") != std::vector<std::int64_t>{1, 1}) throw Unsupported{kind};
      return append(node, "self", AveragePoolOp{});
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
    append(node, "self", std::move(op));
  }

  void add_sum(const Node& node) {
    if (!ivalue(at(node, "alpha")).toScalar().equal(1)) throw Unsupported{"add with alpha"};
    BlockOp op{.what = AddOp{},
               .inputs = {number(at(node, "self")), number(at(node, "other"))},
               .name = "add" + std::to_string(num_sums_++)};
    push(node, std::move(op));
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

  std::map<const void*, std::string> names_;
  std::map<const Value*, std::size_t> values_;
  BlockGraph result_;
  int num_sums_ = 0;
};

}  // namespace

std::optional<BlockGraph> capture(model::UnaryLayer& block, const at::Tensor& example, std::string& why) {
  const at::NoGradGuard no_grad;
  // A tensor that wants gradients can't be a constant of a graph.
  std::vector<at::Tensor> trained;
  block.visit_parameters([&](const std::string&, model::TensorDecl& decl) {
    if (!decl.value.requires_grad()) return;
    trained.push_back(decl.value);
    decl.value.set_requires_grad(false);
  });
  std::optional<BlockGraph> graph;
  try {
    const auto forward = [&](const torch::jit::Stack& inputs) -> torch::jit::Stack {
      const torch::jit::tracer::NoWarn quiet;
      return {block.forward(inputs.at(0).toTensor())};
    };
    const auto no_name = [](const at::Tensor&) { return std::string(); };
    const auto traced = torch::jit::tracer::trace({example}, forward, no_name, /*strict=*/true,
                                                  /*force_outplace=*/true);
    graph = Reader(block).read(*traced.first->graph);
  } catch (const Unsupported& unsupported) {
    why = unsupported.what;
  }
  for (const at::Tensor& tensor : trained) tensor.set_requires_grad(true);
  return graph;
}

}  // namespace trainctl::quantization

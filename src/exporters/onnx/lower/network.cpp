// Lowerings of the operators that networks are named after.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <limits>

#include "exporters/onnx/lower/lowering.h"

namespace trainctl::exporters {
namespace {

using Ints = std::vector<std::int64_t>;

std::string transposed(Lowering& to, const std::string& value, const Ints& dims) {
  return to.graph().add("Transpose", {value}, {{"perm", dims}});
}

/// Returns Wᵀ [in, out] of an argument W [out, in]. Rows of bytes are stored transposed, so that a runtime finds them
/// at the product, unless another operator reads them too.
std::string turned_weight(Lowering& to) {
  OnnxGraph& graph = to.graph();
  const auto rows = to.find_rows(to.argument("weight"));
  if (!rows || graph.tensors().contains(rows->levels.name)) return transposed(to, to.tensor("weight"), {1, 0});
  return to.dequantized(graph.tensor(rows->levels.name + ".turned", rows->levels.tensor.t()), to.levels_of(*rows, 1));
}

/// Lowers y = x Wᵀ + b.
void linear(Lowering& to) {
  OnnxGraph& graph = to.graph();
  const std::string input = to.tensor("input");
  if (to.rank(to.argument("input")) == 2) {
    std::vector<std::string> inputs{input, to.tensor("weight")};
    if (to.has("bias")) inputs.push_back(to.tensor("bias"));
    return to.set(graph.add("Gemm", inputs, {{"transB", std::int64_t{1}}}));
  }
  const std::string product = graph.add("MatMul", {input, turned_weight(to)});
  to.set(to.has("bias") ? graph.add("Add", {product, to.tensor("bias")}) : product);
}

void matmul(Lowering& to) {
  to.set(to.graph().add("MatMul", {to.tensor(to.node().input(0)), to.tensor(to.node().input(1))}));
}

void layer_norm(Lowering& to) {
  const auto num_dims = static_cast<std::int64_t>(to.fixed_integers("normalized_shape").size());
  to.set(to.graph().add("LayerNormalization", {to.tensor("input"), to.tensor("weight"), to.tensor("bias")},
                        {{"axis", -num_dims}, {"epsilon", static_cast<float>(to.fixed_number("eps"))}}));
}

/// Lowers x / √(mean x² + ε) · w; opset 17 has no operator for it.
void rms_norm(Lowering& to) {
  OnnxGraph& graph = to.graph();
  if (to.fixed_integers("normalized_shape").size() != 1) to.refuse("it is over more than one dim");
  const std::string x = to.tensor("input");
  const std::string mean =
      graph.add("ReduceMean", {graph.add("Mul", {x, x})}, {{"axes", Ints{-1}}, {"keepdims", std::int64_t{1}}});
  const double epsilon = to.has("eps") ? to.fixed_number("eps") : std::numeric_limits<float>::epsilon();
  const std::string root =
      graph.add("Sqrt", {graph.add("Add", {mean, graph.number(epsilon, to.dtype(to.argument("input")))})});
  const std::string normal = graph.add("Div", {x, root});
  to.set(to.has("weight") ? graph.add("Mul", {normal, to.tensor("weight")}) : normal);
}

void embedding(Lowering& to) {
  to.set(to.graph().add("Gather", {to.tensor("weight"), to.tensor("indices")}));
}

/// Returns [B, H', S, d] with each head repeated `times`.
std::string repeated_heads(Lowering& to, const std::string& heads, std::int64_t num_heads, std::int64_t times) {
  OnnxGraph& graph = to.graph();
  const std::string apart = graph.add("Unsqueeze", {heads, graph.integers({2})});
  const std::string repeated = graph.add("Expand", {apart, graph.integers({1, 1, times, 1, 1})});
  const std::string size = graph.add("Shape", {heads}, {{"start", std::int64_t{2}}, {"end", std::int64_t{4}}});
  const std::string shape =
      graph.add("Concat", {graph.integers({0, num_heads * times}), size}, {{"axis", std::int64_t{0}}});
  return graph.add("Reshape", {repeated, shape});
}

/// Returns the int64 [n] of 0, 1, … up to the size of a dim.
std::string places(Lowering& to, const std::string& value, std::int64_t dim) {
  OnnxGraph& graph = to.graph();
  const std::string size = graph.add("Shape", {value}, {{"start", dim}, {"end", dim + 1}});
  return graph.add("Range", {graph.integer(0), graph.add("Squeeze", {size, graph.integers({0})}), graph.integer(1)});
}

std::string masked_scores(Lowering& to, const std::string& scores) {
  OnnxGraph& graph = to.graph();
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  if (to.has("attn_mask")) {
    const std::string mask = to.tensor("attn_mask");
    if (to.dtype(to.argument("attn_mask")) != at::kBool) return graph.add("Add", {scores, mask});
    return graph.add("Where", {mask, scores, graph.number(kLowest, at::kFloat)});
  }
  if (!to.flag("is_causal")) return scores;
  const std::string queries = graph.add("Unsqueeze", {places(to, scores, 2), graph.integers({1})});
  const std::string sees = graph.add("LessOrEqual", {places(to, scores, 3), queries});
  return graph.add("Where", {sees, scores, graph.number(kLowest, at::kFloat)});
}

void attention(Lowering& to) {
  OnnxGraph& graph = to.graph();
  const auto& heads = to.argument("query")->type()->expectRef<c10::TensorType>().sizes();
  const auto& key_heads = to.argument("key")->type()->expectRef<c10::TensorType>().sizes();
  if (heads.size() != 4) to.refuse("only [B, H, T, d] is known");
  const double scale =
      to.has("scale") ? to.fixed_number("scale") : 1 / std::sqrt(static_cast<double>(heads[3].value()));
  std::string key = to.tensor("key");
  std::string value = to.tensor("value");
  const auto num_heads = static_cast<std::int64_t>(heads[1].value());
  const auto num_key_heads = static_cast<std::int64_t>(key_heads[1].value());
  if (num_heads != num_key_heads) {
    key = repeated_heads(to, key, num_key_heads, num_heads / num_key_heads);
    value = repeated_heads(to, value, num_key_heads, num_heads / num_key_heads);
  }
  const std::string query = graph.add("Mul", {to.tensor("query"), graph.number(scale, at::kFloat)});
  const std::string scores = graph.add("MatMul", {query, transposed(to, key, {0, 1, 3, 2})});
  const std::string weights = graph.add("Softmax", {masked_scores(to, scores)}, {{"axis", std::int64_t{-1}}});
  to.set(graph.add("MatMul", {weights, value}));
}

/// Puts PyTorch's gates (input, forget, cell, output) into ONNX's order (input, output, forget, cell).
at::Tensor gates_for_onnx(const at::Tensor& gates) {
  const auto parts = gates.detach().chunk(4, 0);
  return at::cat({parts[0], parts[3], parts[1], parts[2]}, 0);
}

struct LstmLayer {
  std::int64_t index;
  std::int64_t num_directions;
  std::int64_t hidden_size;
};

/// Adds a layer: x [T, B, I] -> [T, B, directions · H].
std::string lstm_layer(Lowering& to, const std::string& x, const LstmLayer& layer) {
  OnnxGraph& graph = to.graph();
  const auto parameters = to.list("params");
  std::vector<at::Tensor> input_weights, hidden_weights, biases;
  std::string name;
  for (std::int64_t direction = 0; direction < layer.num_directions; ++direction) {
    const auto stored = [&](std::int64_t place) {
      return to.stored(
          parameters[static_cast<std::size_t>(4 * (layer.index * layer.num_directions + direction) + place)]);
    };
    if (name.empty()) name = stored(0).name;
    input_weights.push_back(gates_for_onnx(stored(0).tensor));
    hidden_weights.push_back(gates_for_onnx(stored(1).tensor));
    biases.push_back(at::cat({gates_for_onnx(stored(2).tensor), gates_for_onnx(stored(3).tensor)}));
  }
  const auto initial = [&](std::size_t which) {
    const std::string all = to.tensor(to.list("hx")[which]);
    const std::int64_t begin = layer.index * layer.num_directions;
    return graph.add(
        "Slice", {all, graph.integers({begin}), graph.integers({begin + layer.num_directions}), graph.integers({0})});
  };
  const std::string output = graph.add(
      "LSTM",
      {x, graph.tensor(name + ".W", at::stack(input_weights)), graph.tensor(name + ".R", at::stack(hidden_weights)),
       graph.tensor(name + ".B", at::stack(biases)), "", initial(0), initial(1)},
      {{"hidden_size", layer.hidden_size},
       {"direction", std::string(layer.num_directions == 2 ? "bidirectional" : "forward")}});  // [T, D, B, H]
  return graph.add("Reshape", {transposed(to, output, {0, 2, 1, 3}), graph.integers({0, 0, -1})});
}

void lstm(Lowering& to) {
  if (!to.node().schema().argumentIndexWithName("batch_first")) to.refuse("packed sequences have no ONNX operator");
  if (!to.flag("has_biases")) to.refuse("it has no biases");
  for (const std::size_t output : {1U, 2U})
    if (to.node().output(output)->hasUses()) to.refuse("its last states are used");
  const std::int64_t num_directions = to.flag("bidirectional") ? 2 : 1;
  const at::Tensor first = to.stored(to.list("params")[1]).tensor;  // [4H, H]
  std::string x = to.tensor("input");
  if (to.flag("batch_first")) x = transposed(to, x, {1, 0, 2});
  for (std::int64_t layer = 0; layer < to.fixed_integer("num_layers"); ++layer)
    x = lstm_layer(to, x, {.index = layer, .num_directions = num_directions, .hidden_size = first.size(1)});
  to.set(to.flag("batch_first") ? transposed(to, x, {1, 0, 2}) : x);
}

}  // namespace

const std::map<std::string_view, LowerOperator>& network_lowerings() {
  static const std::map<std::string_view, LowerOperator> table = {
      {"aten::linear", linear},
      {"aten::matmul", matmul},
      {"aten::mm", matmul},
      {"aten::layer_norm", layer_norm},
      {"aten::rms_norm", rms_norm},
      {"aten::embedding", embedding},
      {"aten::scaled_dot_product_attention", attention},
      {"aten::lstm", lstm},
  };
  return table;
}

}  // namespace trainctl::exporters

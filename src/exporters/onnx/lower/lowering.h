// A traced graph (exporters/trace.h) in ONNX's operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exporters/onnx/builder.h"
#include "exporters/signature.h"

namespace trainctl::exporters {

/// Returns the ONNX graph of the module's `forward`. Throws an Error that names the operator and its block if ONNX
/// lacks the operator, or lacks it with these arguments.
OnnxGraph lower_to_onnx(const torch::jit::Module& module, const Signature& signature);

class Lowering;
using LowerOperator = void (*)(Lowering& to);

/// What the lowering of one operator works with: the node, and what its inputs have become.
class Lowering {
 public:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  Lowering(const torch::jit::Module& module, const Signature& signature);
  OnnxGraph run();

  OnnxGraph& graph() { return graph_; }
  /// Returns an argument of the node that is being lowered, by its name in the operator's schema.
  const Value* argument(std::string_view name) const;
  bool has(std::string_view name) const;  // false: the operator has no such argument, or it is None
  /// The name of a tensor; of a number, as a scalar of the given type.
  std::string tensor(std::string_view name) { return tensor(argument(name)); }
  std::string tensor(const Value* value);
  std::string tensor_or_number(std::string_view name, at::ScalarType dtype);
  /// Int64 [1] of one number, and [n] of a list, whether they are known now or not.
  std::string integer(std::string_view name) { return integer(argument(name)); }
  std::string integer(const Value* value);
  std::string integers(std::string_view name);
  /// What must be known now; an Error otherwise.
  std::int64_t fixed_integer(std::string_view name) const;
  std::vector<std::int64_t> fixed_integers(std::string_view name) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view name) const;  // none: not known now
  double fixed_number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  /// The memory of a parameter, or of a constant, and the parameter's name.
  struct Stored {
    std::string name;
    at::Tensor tensor;
  };
  Stored stored(const Value* value) const;
  /// None: it is computed.
  std::optional<Stored> find_stored(const Value* value) const;
  /// From now on the value is kept, not computed.
  void set_stored(const Value* value, const Stored& as);
  std::vector<const Value*> list(std::string_view name) const;

  /// The inputs of QuantizeLinear and DequantizeLinear beside a value in levels.
  struct QParams {
    std::string scale;
    std::string zero_point;
    std::optional<std::int64_t> axis{};  // none: one scale for all
  };
  /// `name` has levels: what becomes of aten::dequantize is written where it is used.
  void set_levels(const Value* value, std::string name, QParams levels);
  std::string dequantized(const std::string& name, const QParams& levels);
  /// Rows that are kept in levels, of a value that is their floats; none: it is something else.
  struct StoredRows {
    Stored levels;  // int8 [out, ...]
    Stored scales;  // float [out]
  };
  std::optional<StoredRows> find_rows(const Value* floats) const;
  QParams levels_of(const StoredRows& rows, std::int64_t axis);

  std::int64_t rank(const Value* value) const;
  at::ScalarType dtype(const Value* value) const;
  /// Returns the axis that an argument gives, counted from the front, of a value with rank `of_rank`.
  std::int64_t axis(std::string_view argument_name, std::int64_t of_rank) const;

  void set(std::string name) { set(node_->output(0), std::move(name)); }
  void set(const Value* value, std::string name) { names_[value] = std::move(name); }
  const Node& node() const { return *node_; }
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  void lower(const Node& node);
  void lower_on_levels(LowerOperator lowering);
  std::optional<c10::IValue> constant(const Value* value) const;

  const torch::jit::Module& module_;
  const Signature& signature_;
  OnnxGraph graph_;
  const Node* node_ = nullptr;
  std::unordered_map<const Value*, std::string> names_;     // of tensors, and of int64 [1]
  std::unordered_map<const Value*, c10::IValue> objects_;   // modules and parameters
  std::unordered_map<const Value*, std::string> prefixes_;  // their names in the checkpoint
  std::unordered_map<const Value*, QParams> levels_;
};

/// Adds the lowering of an operator of a plug-in, by its name ("mine::scale"). Before an export begins; the operators
/// of a process are one table, as LibTorch's are.
void add_lowering(const std::string& name, LowerOperator lowering);

/// By name ("aten::linear"), one table for each room of operators.
const std::map<std::string_view, LowerOperator>& arithmetic_lowerings();
const std::map<std::string_view, LowerOperator>& shape_lowerings();
const std::map<std::string_view, LowerOperator>& network_lowerings();
const std::map<std::string_view, LowerOperator>& image_lowerings();
const std::map<std::string_view, LowerOperator>& activation_lowerings();
const std::map<std::string_view, LowerOperator>& quantization_lowerings();

}  // namespace trainctl::exporters

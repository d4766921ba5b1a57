#include "exporters/onnx/lower/lowering.h"

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/jit/ir/constants.h>

#include "core/error.h"
#include "exporters/dynamic_axes.h"

namespace trainctl::exporters {
namespace {

using torch::jit::Node;
using torch::jit::Value;

std::map<std::string, LowerOperator, std::less<>>& added_lowerings() {
  static std::map<std::string, LowerOperator, std::less<>> table;
  return table;
}

LowerOperator lowering_of(std::string_view kind) {
  if (const auto found = added_lowerings().find(kind); found != added_lowerings().end()) return found->second;
  for (const auto* table : {&arithmetic_lowerings(), &activation_lowerings(), &shape_lowerings(), &network_lowerings(),
                            &image_lowerings(), &quantization_lowerings()})
    if (const auto found = table->find(kind); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace

void add_lowering(const std::string& name, LowerOperator lowering) {
  added_lowerings()[name] = lowering;
}

Lowering::Lowering(const torch::jit::Module& module, const Signature& signature)
    : module_(module), signature_(signature) {}

OnnxGraph Lowering::run() {
  const auto graph = module_.get_method("forward").graph();
  objects_.emplace(graph->inputs()[0], module_._ivalue());
  prefixes_.emplace(graph->inputs()[0], "");
  for (std::size_t i = 0; i < signature_.inputs.size(); ++i) {
    const GraphInput& input = signature_.inputs[i];
    graph_.input({.name = input.name, .dtype = input.dtype, .shape = input.shape});
    names_.emplace(graph->inputs()[i + 1], input.name);
  }
  for (const Node* node : graph->nodes()) lower(*node);
  const Value* output = graph->outputs()[0];
  const auto sizes = output->type()->expectRef<c10::TensorType>().sizes().concrete_sizes().value();
  std::vector<std::int64_t> shape(sizes.begin(), sizes.end());
  shape[0] = kBatchAxis;
  if (shape.size() == 3) shape[1] = kSequenceAxis;
  graph_.set_scope("");
  graph_.output(tensor(output), {.name = signature_.output, .dtype = dtype(output), .shape = shape});
  return std::move(graph_);
}

void Lowering::lower(const Node& node) {
  node_ = &node;
  std::string scope = node.scopeName();
  graph_.set_scope(scope);
  const c10::Symbol kind = node.kind();
  if (kind == c10::prim::Constant || kind == c10::prim::ListConstruct) return;  // looked up where they are used
  if (kind == c10::prim::GetAttr) {
    const std::string& name = node.s(c10::attr::name);
    const std::string& prefix = prefixes_.at(node.input());
    objects_.emplace(node.output(), objects_.at(node.input()).toObject()->getAttr(name));
    prefixes_.emplace(node.output(), prefix.empty() ? name : prefix + "." + name);
    return;
  }
  const LowerOperator lowering = lowering_of(kind.toQualString());
  if (lowering == nullptr) refuse("it has no lowering here");
  const bool reads_levels = !node.inputs().empty() && levels_.contains(node.input(0));
  if (reads_levels && kind != c10::aten::dequantize) return lower_on_levels(lowering);
  lowering(*this);
}

/// Lowers an operator that selects or averages levels: it computes in floats, between roundings to the same levels.
void Lowering::lower_on_levels(LowerOperator lowering) {
  const Value* input = node_->input(0);
  const QParams levels = levels_.at(input);
  const std::string name = names_.at(input);
  names_[input] = dequantized(name, levels);
  lowering(*this);
  names_[input] = name;
  const Value* output = node_->output();
  set_levels(output, graph_.add("QuantizeLinear", {names_.at(output), levels.scale, levels.zero_point}), levels);
}

void Lowering::set_levels(const Value* value, std::string name, QParams levels) {
  names_[value] = std::move(name);
  levels_[value] = std::move(levels);
}

std::string Lowering::dequantized(const std::string& name, const QParams& levels) {
  const OnnxAttributes attributes = levels.axis ? OnnxAttributes{{"axis", *levels.axis}} : OnnxAttributes{};
  return graph_.add("DequantizeLinear", {name, levels.scale, levels.zero_point}, attributes);
}

Lowering::QParams Lowering::levels_of(const StoredRows& rows, std::int64_t axis) {
  return {.scale = graph_.tensor(rows.scales.name, rows.scales.tensor),
          // One for each weight: ONNX Runtime's session.x64quantprecision fails where two weights share theirs.
          .zero_point = graph_.tensor(rows.scales.name + "_zero_point", at::zeros_like(rows.scales.tensor, at::kChar)),
          .axis = axis};
}

std::optional<Lowering::StoredRows> Lowering::find_rows(const Value* floats) const {
  if (floats->node()->kind() != c10::aten::dequantize) return std::nullopt;
  const Node* rows = floats->node()->input(0)->node();
  if (rows->kind() != c10::aten::_make_per_channel_quantized_tensor) return std::nullopt;
  const auto levels = find_stored(rows->input(0));
  const auto scales = find_stored(rows->input(1));
  if (!levels || !scales) return std::nullopt;
  return StoredRows{.levels = *levels, .scales = *scales};
}

const Value* Lowering::argument(std::string_view name) const {
  const auto index = node_->schema().argumentIndexWithName(name);
  core::ensure(index.has_value(), "an operator is lowered by another's arguments");
  return node_->input(static_cast<std::size_t>(*index));
}

bool Lowering::has(std::string_view name) const {
  const auto index = node_->schema().argumentIndexWithName(name);
  if (!index) return false;
  const auto value = constant(node_->input(static_cast<std::size_t>(*index)));
  return !value || !value->isNone();
}

std::optional<c10::IValue> Lowering::constant(const Value* value) const {
  return value->node()->kind() == c10::prim::Constant ? torch::jit::toIValue(value) : std::nullopt;
}

std::string Lowering::tensor(const Value* value) {
  if (const auto found = names_.find(value); found != names_.end()) return found->second;
  if (value->node()->kind() == c10::aten::dequantize) {
    if (const auto rows = find_rows(value))
      return names_[value] = dequantized(graph_.tensor(rows->levels.name, rows->levels.tensor), levels_of(*rows, 0));
    const Value* levels = value->node()->input(0);
    if (!levels_.contains(levels)) refuse("it is of levels that come from where none are known");
    return names_[value] = dequantized(names_.at(levels), levels_.at(levels));
  }
  const Stored memory = stored(value);
  return graph_.tensor(memory.name, memory.tensor);
}

Lowering::Stored Lowering::stored(const Value* value) const {
  const std::optional<Stored> found = find_stored(value);
  if (!found) refuse("it needs a stored tensor");
  return *found;
}

std::optional<Lowering::Stored> Lowering::find_stored(const Value* value) const {
  if (const auto found = objects_.find(value); found != objects_.end() && found->second.isTensor())
    return Stored{.name = prefixes_.at(value), .tensor = found->second.toTensor()};
  const auto known = constant(value);
  if (!known || !known->isTensor()) return std::nullopt;
  return Stored{.name = "constant_" + value->debugName(), .tensor = known->toTensor()};
}

void Lowering::set_stored(const Value* value, const Stored& as) {
  objects_[value] = as.tensor;
  prefixes_[value] = as.name;
}

std::string Lowering::tensor_or_number(std::string_view name, at::ScalarType dtype) {
  const Value* value = argument(name);
  const auto known = constant(value);
  if (known && known->isScalar()) return graph_.number(known->toScalar().toDouble(), dtype);
  if (value->type()->kind() != c10::TypeKind::IntType) return tensor(value);
  const std::string scalar = graph_.add("Squeeze", {integer(value), graph_.integers({0})});
  return dtype == at::kLong ? scalar : graph_.add("Cast", {scalar}, {{"to", std::int64_t{onnx_type(dtype)}}});
}

std::string Lowering::integer(const Value* value) {
  if (const auto known = constant(value)) return graph_.integers({known->toInt()});
  const auto found = names_.find(value);
  if (found == names_.end()) refuse("a size comes from where none is known");
  return found->second;
}

std::string Lowering::integers(std::string_view name) {
  std::vector<std::int64_t> known;
  std::vector<std::string> parts;
  const std::vector<const Value*> items = list(name);
  for (const Value* item : items) {
    if (const auto value = constant(item)) known.push_back(value->toInt());
    parts.push_back(integer(item));
  }
  if (known.size() == items.size()) return graph_.integers(known);
  return parts.size() == 1 ? parts.front() : graph_.add("Concat", parts, {{"axis", std::int64_t{0}}});
}

std::int64_t Lowering::fixed_integer(std::string_view name) const {
  const auto value = constant(argument(name));
  if (!value || !value->isInt()) refuse("its " + std::string(name) + " depends on the input");
  return value->toInt();
}

std::vector<std::int64_t> Lowering::fixed_integers(std::string_view name) const {
  const auto known = find_integers(name);
  if (!known) refuse("its " + std::string(name) + " depends on the input");
  return *known;
}

std::optional<std::vector<std::int64_t>> Lowering::find_integers(std::string_view name) const {
  if (const auto value = constant(argument(name)))
    return value->isInt() ? std::vector{value->toInt()} : value->toIntVector();
  std::vector<std::int64_t> known;
  for (const Value* item : list(name)) {
    const auto value = constant(item);
    if (!value || !value->isInt()) return std::nullopt;
    known.push_back(value->toInt());
  }
  return known;
}

double Lowering::fixed_number(std::string_view name) const {
  const auto value = constant(argument(name));
  if (!value || !value->isScalar()) refuse("its " + std::string(name) + " depends on the input");
  return value->toScalar().toDouble();
}

bool Lowering::flag(std::string_view name) const {
  const auto value = constant(argument(name));
  if (!value || !value->isBool()) refuse("its " + std::string(name) + " isn't fixed");
  return value->toBool();
}

std::string Lowering::text(std::string_view name) const {
  const auto value = constant(argument(name));
  if (!value || !value->isString()) refuse("its " + std::string(name) + " isn't fixed");
  return value->toStringRef();
}

std::vector<const Value*> Lowering::list(std::string_view name) const {
  const Node* made = argument(name)->node();
  if (made->kind() != c10::prim::ListConstruct) refuse("its " + std::string(name) + " is no list of known length");
  return {made->inputs().begin(), made->inputs().end()};
}

std::int64_t Lowering::rank(const Value* value) const {
  if (const auto found = objects_.find(value); found != objects_.end()) return found->second.toTensor().dim();
  const auto rank = value->type()->expectRef<c10::TensorType>().sizes().size();
  if (!rank) refuse("the number of its dims isn't known");
  return static_cast<std::int64_t>(*rank);
}

at::ScalarType Lowering::dtype(const Value* value) const {
  if (const auto found = objects_.find(value); found != objects_.end()) return found->second.toTensor().scalar_type();
  if (const auto known = constant(value); known && known->isTensor()) return known->toTensor().scalar_type();
  const auto dtype = value->type()->expectRef<c10::TensorType>().scalarType();
  if (!dtype) refuse("its type isn't known");
  return *dtype;
}

std::int64_t Lowering::axis(std::string_view argument_name, std::int64_t of_rank) const {
  const std::int64_t axis = fixed_integer(argument_name);
  return axis < 0 ? axis + of_rank : axis;
}

void Lowering::refuse(const std::string& why) const {
  throw core::Error("cannot export " + describe(*node_) + " to ONNX: " + why);
}

OnnxGraph lower_to_onnx(const torch::jit::Module& module, const Signature& signature) {
  return Lowering(module, signature).run();
}

}  // namespace trainctl::exporters

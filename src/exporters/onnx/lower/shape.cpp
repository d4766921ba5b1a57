// Lowerings of operators that arrange elements, make them up, or pick some.
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "exporters/onnx/lower/lowering.h"

namespace trainctl::exporters {
namespace {

/// Returns the sizes of dims [begin, end), as int64.
std::string sizes_of(Lowering& to, const std::string& value, std::int64_t begin, std::int64_t end) {
  return to.graph().add("Shape", {value}, {{"start", begin}, {"end", end}});
}

void size(Lowering& to) {
  const auto* self = to.argument("self");
  const std::int64_t dim = to.axis("dim", to.rank(self));
  to.set(sizes_of(to, to.tensor(self), dim, dim + 1));
}

std::string concatenated(Lowering& to, const std::vector<std::string>& parts) {
  return parts.size() == 1 ? parts.front() : to.graph().add("Concat", parts, {{"axis", std::int64_t{0}}});
}

/// Reshapes the dims from `begin` to before `end` into `middle`; the others stay.
void reshape_between(Lowering& to, std::int64_t begin, std::int64_t end, const std::string& middle) {
  const auto* self = to.argument("self");
  const std::string value = to.tensor(self);
  std::vector<std::string> parts;
  if (begin > 0) parts.push_back(to.graph().integers(std::vector<std::int64_t>(static_cast<std::size_t>(begin), 0)));
  parts.push_back(middle);
  if (end < to.rank(self)) parts.push_back(sizes_of(to, value, end, to.rank(self)));
  to.set(to.graph().add("Reshape", {value, concatenated(to, parts)}));
}

void flatten(Lowering& to) {
  const std::int64_t rank = to.rank(to.argument("self"));
  reshape_between(to, to.axis("start_dim", rank), to.axis("end_dim", rank) + 1, to.graph().integers({-1}));
}

void unflatten(Lowering& to) {
  const std::int64_t dim = to.axis("dim", to.rank(to.argument("self")));
  reshape_between(to, dim, dim + 1, to.integers("sizes"));
}

/// Lowers a view. A stored tensor that is viewed in a fixed shape is stored in that shape.
void view(Lowering& to) {
  const auto stored = to.find_stored(to.argument("self"));
  const auto sizes = to.find_integers("size");
  if (stored && sizes) {
    const at::Tensor tensor = stored->tensor.view(*sizes);
    std::string name = stored->name + ".as";
    for (const std::int64_t size : tensor.sizes()) name += "_" + std::to_string(size);
    return to.set_stored(to.node().output(), {.name = name, .tensor = tensor});
  }
  to.set(to.graph().add("Reshape", {to.tensor("self"), to.integers("size")}));
}

void index_select(Lowering& to) {
  to.set(to.graph().add("Gather", {to.tensor("self"), to.tensor("index")}, {{"axis", to.fixed_integer("dim")}}));
}

void reshape(Lowering& to) {
  to.set(to.graph().add("Reshape", {to.tensor("self"), to.integers(to.node().schema().arguments()[1].name())}));
}

std::vector<std::int64_t> ascending(std::int64_t rank) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

void transpose(Lowering& to) {
  const std::int64_t rank = to.rank(to.argument("self"));
  std::vector<std::int64_t> dims = ascending(rank);
  std::swap(dims[static_cast<std::size_t>(to.axis("dim0", rank))],
            dims[static_cast<std::size_t>(to.axis("dim1", rank))]);
  to.set(to.graph().add("Transpose", {to.tensor("self")}, {{"perm", dims}}));
}

void matrix_transpose(Lowering& to) {
  std::vector<std::int64_t> dims = ascending(to.rank(to.argument("self")));
  std::reverse(dims.begin(), dims.end());
  to.set(to.graph().add("Transpose", {to.tensor("self")}, {{"perm", dims}}));
}

void permute(Lowering& to) {
  std::vector<std::int64_t> dims = to.fixed_integers("dims");
  for (std::int64_t& dim : dims)
    if (dim < 0) dim += static_cast<std::int64_t>(dims.size());
  to.set(to.graph().add("Transpose", {to.tensor("self")}, {{"perm", dims}}));
}

void unsqueeze(Lowering& to) {
  const std::int64_t dim = to.axis("dim", to.rank(to.argument("self")) + 1);
  to.set(to.graph().add("Unsqueeze", {to.tensor("self"), to.graph().integers({dim})}));
}

void squeeze(Lowering& to) {
  to.set(to.graph().add("Squeeze", {to.tensor("self"), to.graph().integers({to.fixed_integer("dim")})}));
}

void select(Lowering& to) {
  const std::string index = to.graph().integer(to.fixed_integer("index"));
  to.set(to.graph().add("Gather", {to.tensor("self"), index}, {{"axis", to.fixed_integer("dim")}}));
}

void narrow(Lowering& to) {
  const std::string start = to.integer("start");
  const std::string end = to.graph().add("Add", {start, to.integer("length")});
  to.set(to.graph().add("Slice", {to.tensor("self"), start, end, to.integer("dim")}));
}

void slice(Lowering& to) {
  const std::string start = to.has("start") ? to.integer("start") : to.graph().integers({0});
  const std::string end = to.has("end") ? to.integer("end") : to.graph().integers({INT64_MAX});
  to.set(to.graph().add("Slice", {to.tensor("self"), start, end, to.integer("dim"), to.integer("step")}));
}

/// Lowers a split into a list, whose members come out of a prim::ListUnpack.
void chunk(Lowering& to) {
  const auto& uses = to.node().output()->uses();
  if (uses.size() != 1 || uses[0].user->kind() != c10::prim::ListUnpack)
    to.refuse("its parts aren't taken out of their list at once");
  const auto num_parts = uses[0].user->outputs().size();
  if (static_cast<std::int64_t>(num_parts) != to.fixed_integer("chunks")) to.refuse("its parts aren't equal");
  const std::vector<std::string> parts =
      to.graph().add("Split", {to.tensor("self")}, {{"axis", to.fixed_integer("dim")}}, num_parts);
  for (std::size_t i = 0; i < num_parts; ++i) to.set(uses[0].user->output(i), parts[i]);
}

void nothing(Lowering&) {}

/// Lowers an expansion. A dim of -1 keeps its size; in ONNX a 1 does.
void expand(Lowering& to) {
  std::vector<std::string> parts;
  for (const auto* item : to.list("size")) {
    const auto known = torch::jit::toIValue(item);
    parts.push_back(known && known->toInt() == -1 ? to.graph().integers({1}) : to.integer(item));
  }
  to.set(to.graph().add("Expand", {to.tensor("self"), concatenated(to, parts)}));
}

void cat(Lowering& to) {
  std::vector<std::string> parts;
  for (const auto* item : to.list("tensors")) parts.push_back(to.tensor(item));
  to.set(to.graph().add("Concat", parts, {{"axis", to.fixed_integer("dim")}}));
}

void arange(Lowering& to) {
  const at::ScalarType dtype = to.dtype(to.node().output());
  const std::string start = to.node().schema().argumentIndexWithName("start") ? to.tensor_or_number("start", dtype)
                                                                              : to.graph().number(0, dtype);
  to.set(to.graph().add("Range", {start, to.tensor_or_number("end", dtype), to.graph().number(1, dtype)}));
}

void filled(Lowering& to, double value) {
  const std::string number = to.graph().number(value, to.dtype(to.node().output()));
  to.set(to.graph().add("Expand", {number, to.integers("size")}));
}

void zeros(Lowering& to) {
  filled(to, 0);
}

void ones(Lowering& to) {
  filled(to, 1);
}

void gather(Lowering& to) {
  to.set(
      to.graph().add("GatherElements", {to.tensor("self"), to.tensor("index")}, {{"axis", to.fixed_integer("dim")}}));
}

}  // namespace

const std::map<std::string_view, LowerOperator>& shape_lowerings() {
  static const std::map<std::string_view, LowerOperator> table = {
      {"aten::size", size},
      {"aten::flatten", flatten},
      {"aten::unflatten", unflatten},
      {"aten::reshape", reshape},
      {"aten::view", view},
      {"aten::transpose", transpose},
      {"aten::t", matrix_transpose},
      {"aten::permute", permute},
      {"aten::unsqueeze", unsqueeze},
      {"aten::squeeze", squeeze},
      {"aten::select", select},
      {"aten::narrow", narrow},
      {"aten::slice", slice},
      {"aten::chunk", chunk},
      {"prim::ListUnpack", nothing},  // chunk has named its outputs
      {"aten::expand", expand},
      {"aten::cat", cat},
      {"aten::arange", arange},
      {"aten::zeros", zeros},
      {"aten::ones", ones},
      {"aten::gather", gather},
      {"aten::index_select", index_select},
  };
  return table;
}

}  // namespace trainctl::exporters

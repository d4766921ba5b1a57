// The cost of an operator: the FLOPs that it computes and the bytes that it moves, by its name and its tensors. The one
// table of operators; the planner and the profiler use it.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>

#include "roofline/operations.h"

namespace trainctl::roofline {

/// A tensor as an operator saw it.
struct TensorUse {
  Operation::Shape shape;
  Operation::Shape strides;
  double bytes = 0;  // an expanded tensor's are those that lie in memory
  at::ScalarType dtype = at::kFloat;
  PixelOrder order = PixelOrder::channels_first;
  const void* tensor = nullptr;  // who it is, and whose memory it has; only to compare
  const void* storage = nullptr;
};

/// An operator that has ended.
struct DispatchedOperator {
  std::string_view name;
  c10::SmallVector<TensorUse, 4> inputs;   // the first few
  c10::SmallVector<TensorUse, 4> outputs;  // likewise
  double input_bytes = 0;                  // of all
  double output_bytes = 0;
  double allocated_bytes = 0;  // by what it called
  bool is_causal = false;      // of attention
  int num_gradients = 2;       // of a convolution's input and weight, that the backward pass computes
  Operation::Shape convolved;  // shape of a convolution's output, where `outputs` isn't known
};

/// Reads a flag or a mask among the arguments of `call`, at its place in the operator's schema.
void read_flags(const c10::IValue& argument, std::size_t place, DispatchedOperator& call);

/// How an operator's work relates to that of the operators that it calls.
enum class OperatorRole {
  allocation,  // gives memory
  view,        // gives other sizes and strides of the same memory
  whole,       // what it calls is its own affair
  any,         // what it calls does the work, unless that is much less than its own tensors
};

/// Where the bytes are, that an operator moves.
enum class ByteRule {
  all,            // reads its inputs, writes its outputs
  written,        // writes its outputs
  twice_written,  // reads as much as it writes
  added,          // reads its first input twice beside that
  by_allocated,   // a factor of what it allocated
};

struct OpCostRule {
  OperatorRole role = OperatorRole::any;
  WorkKind kind = WorkKind::stream;
  ByteRule bytes = ByteRule::all;
  double factor = 1;
};

/// Returns the table's rule for an operator ("aten::mm"), or the default rule if the table has none.
OpCostRule find_cost_rule(std::string_view name);

/// Adds the rule for an operator of a plug-in ("mine::scale", a name that lasts), before any step. The operators of a
/// process are one table, as LibTorch's are.
void add_cost_rule(std::string_view name, const OpCostRule& rule);

/// Returns the kind, FLOPs, bytes and extents of a call. Zero bytes mean that the operator moved nothing, as a view.
Operation operator_cost(const DispatchedOperator& call, const OpCostRule& rule);

}  // namespace trainctl::roofline

// What an operator computes and moves, told by its name and the tensors that it was given and gave.
#pragma once

#include <string_view>

#include "plan/time/operations.h"

namespace trainctl::plan {

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
  bool is_causal = false;      // a flag among its arguments is true
};

/// How an operator's work relates to that of the operators that it calls.
enum class OperatorRole {
  allocation,  // gives memory
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

OpCostRule law_of(std::string_view name);

/// Kind, FLOPs, bytes and extents. No bytes: nothing was moved, as by a view.
Operation work_of(const DispatchedOperator& call, const OpCostRule& law);

}  // namespace trainctl::plan

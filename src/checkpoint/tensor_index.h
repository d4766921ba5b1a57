// Where the elements of a checkpoint's tensors lie: in which files, in which pieces.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/element_runs.h"

namespace trainctl::checkpoint {

using Dims = std::vector<std::int64_t>;

/// The dims of a dense tensor from the outermost in memory to the innermost; empty where that is row-major. Dims of one
/// element have no place in memory: they come first.
Dims memory_order(c10::IntArrayRef sizes, c10::IntArrayRef strides);
/// What memory_order() was made of.
Dims strides_of(const Dims& sizes, const Dims& order);
std::int64_t numel_of(const Dims& sizes);

/// A stretch of a tensor, or of runs of it, in a file. Elements are counted in the tensor's order.
struct Piece {
  std::string file;
  std::uint64_t byte = 0;  // of the file
  std::int64_t offset = 0;
  std::int64_t count = 0;
  runtime::ElementRuns runs{};
};

struct TensorRecord {
  c10::ScalarType dtype = c10::ScalarType::Float;
  Dims shape;
  Dims order;  // as memory_order() has it
  std::vector<Piece> pieces;
};
using TensorIndex = std::map<std::string, TensorRecord>;

/// Adds the pieces of `more`; an Error where the two don't speak of the same tensors.
void merge(TensorIndex& index, TensorIndex more);

/// How many different elements the pieces hold. Runs of one tensor are the same or have no element in common.
std::int64_t covered_elements(const TensorRecord& record);
std::int64_t covered_elements(const TensorIndex& index);

/// The pieces, cut, that hold elements `offset` to `offset + count` of `runs`, each element once and in order. Their
/// own offsets are those among `runs`. An Error where some elements are nowhere.
std::vector<Piece> pieces_within(const std::string& name, const TensorRecord& record, std::int64_t offset,
                                 std::int64_t count, const runtime::ElementRuns& runs = {});

}  // namespace trainctl::checkpoint

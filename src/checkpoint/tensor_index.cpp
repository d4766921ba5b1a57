#include "checkpoint/tensor_index.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

std::vector<Piece> by_offset(std::vector<Piece> pieces) {
  std::ranges::stable_sort(pieces, {}, &Piece::offset);
  return pieces;
}

std::int64_t covered_elements(const TensorRecord& record) {
  std::int64_t covered = 0;
  std::int64_t end = 0;
  for (const Piece& piece : by_offset(record.pieces)) {
    const std::int64_t begin = std::max(end, piece.offset);
    end = std::max(end, piece.offset + piece.count);
    covered += std::max<std::int64_t>(0, end - begin);
  }
  return covered;
}

}  // namespace

Dims memory_order(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return {};
  Dims order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto stride = [&](std::int64_t dim) {
    const auto i = static_cast<std::size_t>(dim);
    return sizes[i] == 1 ? std::numeric_limits<std::int64_t>::max() : strides[i];
  };
  std::ranges::stable_sort(order, std::ranges::greater{}, stride);
  std::vector<std::int64_t> as_they_are;
  for (const std::int64_t dim : order)
    if (sizes[static_cast<std::size_t>(dim)] != 1) as_they_are.push_back(dim);
  return std::ranges::is_sorted(as_they_are) ? Dims{} : order;
}

Dims strides_of(const Dims& sizes, const Dims& order) {
  Dims strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto dim = order.empty() ? i : static_cast<std::size_t>(order[i]);
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  return strides;
}

std::int64_t numel_of(const Dims& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies{});
}

void merge(TensorIndex& index, TensorIndex more) {
  for (auto& [name, record] : more) {
    const auto found = index.find(name);
    if (found == index.end()) {
      index.emplace(name, std::move(record));
      continue;
    }
    TensorRecord& known = found->second;
    if (known.dtype != record.dtype || known.shape != record.shape || known.order != record.order)
      throw core::Error("the ranks' parts have different tensors of the name " + name);
    known.pieces.insert(known.pieces.end(), record.pieces.begin(), record.pieces.end());
  }
}

std::int64_t covered_elements(const TensorIndex& index) {
  std::int64_t covered = 0;
  for (const auto& [name, record] : index) covered += covered_elements(record);
  return covered;
}

std::vector<Piece> pieces_within(const std::string& name, const TensorRecord& record, std::int64_t offset,
                                 std::int64_t count) {
  const auto bytes = static_cast<std::uint64_t>(c10::elementSize(record.dtype));
  std::vector<Piece> cut;
  std::int64_t at = offset;
  for (const Piece& piece : by_offset(record.pieces)) {
    const std::int64_t end = std::min(piece.offset + piece.count, offset + count);
    if (end <= at) continue;
    if (piece.offset > at) break;
    cut.push_back({.file = piece.file,
                   .byte = piece.byte + static_cast<std::uint64_t>(at - piece.offset) * bytes,
                   .offset = at,
                   .count = end - at});
    at = end;
  }
  if (at < offset + count)
    throw core::Error("elements from " + std::to_string(at) + " of tensor " + name +
                      " are in no file of the checkpoint");
  return cut;
}

}  // namespace trainctl::checkpoint

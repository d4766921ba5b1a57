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

/// Returns the pieces that hold elements `offset` to `offset + count`, cut, as far as they go without a gap.
std::vector<Piece> cut(std::vector<Piece> pieces, std::int64_t offset, std::int64_t count, std::uint64_t element) {
  std::vector<Piece> found;
  std::int64_t at = offset;
  for (const Piece& piece : by_offset(std::move(pieces))) {
    const std::int64_t end = std::min(piece.offset + piece.count, offset + count);
    if (end <= at) continue;
    if (piece.offset > at) break;
    found.push_back({.file = piece.file,
                     .byte = piece.byte + static_cast<std::uint64_t>(at - piece.offset) * element,
                     .offset = at,
                     .count = end - at});
    at = end;
  }
  return found;
}

std::int64_t end_of(const std::vector<Piece>& pieces, std::int64_t if_none) {
  return pieces.empty() ? if_none : pieces.back().offset + pieces.back().count;
}

/// Returns what the record's pieces hold of the stretch, as pieces of the whole.
std::vector<Piece> in_stretch(const TensorRecord& record, std::int64_t begin, std::int64_t end, std::uint64_t element) {
  std::vector<Piece> found;
  for (const Piece& piece : record.pieces) {
    const std::int64_t first = std::max(piece.offset, piece.runs.count_before(begin));
    const std::int64_t last = std::min(piece.offset + piece.count, piece.runs.count_before(end));
    piece.runs.for_each_stretch(first, last, [&](std::int64_t i, std::int64_t place, std::int64_t count) {
      found.push_back({.file = piece.file,
                       .byte = piece.byte + static_cast<std::uint64_t>(i - piece.offset) * element,
                       .offset = place,
                       .count = count});
    });
  }
  return found;
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

std::int64_t covered_elements(const TensorRecord& record) {
  std::int64_t covered = 0;
  std::vector<Piece> left = by_offset(record.pieces);
  while (!left.empty()) {
    const runtime::ElementRuns runs = left.front().runs;
    std::int64_t end = 0;
    std::erase_if(left, [&](const Piece& piece) {
      if (piece.runs != runs) return false;
      const std::int64_t begin = std::max(end, piece.offset);
      end = std::max(end, piece.offset + piece.count);
      covered += std::max<std::int64_t>(0, end - begin);
      return true;
    });
  }
  return covered;
}

std::int64_t covered_elements(const TensorIndex& index) {
  std::int64_t covered = 0;
  for (const auto& [name, record] : index) covered += covered_elements(record);
  return covered;
}

std::vector<Piece> pieces_within(const std::string& name, const TensorRecord& record, std::int64_t offset,
                                 std::int64_t count, const runtime::ElementRuns& runs) {
  const auto element = static_cast<std::uint64_t>(c10::elementSize(record.dtype));
  std::vector<Piece> alike;
  for (const Piece& piece : record.pieces)
    if (piece.runs == runs) alike.push_back(piece);
  std::vector<Piece> found = cut(std::move(alike), offset, count, element);
  if (end_of(found, offset) == offset + count) return found;
  found.clear();
  runs.for_each_stretch(offset, offset + count, [&](std::int64_t i, std::int64_t place, std::int64_t size) {
    std::vector<Piece> within = cut(in_stretch(record, place, place + size, element), place, size, element);
    if (const std::int64_t end = end_of(within, place); end < place + size)
      throw core::Error("elements from " + std::to_string(end) + " of tensor " + name +
                        " are in no file of the checkpoint");
    for (Piece& piece : within) {
      piece.offset += i - place;
      found.push_back(std::move(piece));
    }
  });
  return found;
}

}  // namespace trainctl::checkpoint

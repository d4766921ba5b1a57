// Where a checkpoint's elements lie: pieces of a whole, and pieces of runs, as ranks write them that share layers.
#include "checkpoint/tensor_index.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

/// [4, 6] of floats, whose columns 0 to 2 and 3 to 5 two ranks wrote, the second in two pieces.
TensorRecord halves() {
  const runtime::ElementRuns left{.length = 3, .distance = 6, .first = 0};
  const runtime::ElementRuns right{.length = 3, .distance = 6, .first = 3};
  return {.shape = {4, 6},
          .order = {},
          .pieces = {{.file = "b", .byte = 100, .offset = 7, .count = 5, .runs = right},
                     {.file = "a", .byte = 8, .offset = 0, .count = 12, .runs = left},
                     {.file = "b", .byte = 0, .offset = 0, .count = 7, .runs = right}}};
}

/// file:byte of each element that is asked for, in order.
std::vector<std::string> places(const TensorRecord& record, std::int64_t offset, std::int64_t count,
                                const runtime::ElementRuns& runs = {}) {
  std::vector<std::string> found;
  std::int64_t next = offset;
  for (const Piece& piece : pieces_within("t", record, offset, count, runs)) {
    CHECK(piece.offset == next);
    for (std::int64_t i = 0; i < piece.count; ++i)
      found.push_back(piece.file + ":" + std::to_string(piece.byte + 4 * static_cast<std::uint64_t>(i)));
    next += piece.count;
  }
  CHECK(next == offset + count);
  return found;
}

TEST_CASE("runs count and find elements as a list of them does", "[checkpoint]") {
  const runtime::ElementRuns runs{.length = 3, .distance = 7, .first = 2};
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < 9; ++i) elements.push_back(runs.at(i));
  CHECK(elements == std::vector<std::int64_t>{2, 3, 4, 9, 10, 11, 16, 17, 18});
  for (std::int64_t place = 0; place < 21; ++place)
    CHECK(runs.count_before(place) == std::ranges::count_if(elements, [&](auto element) { return element < place; }));
  std::vector<std::int64_t> stretched;
  runs.for_each_stretch(1, 8, [&](std::int64_t i, std::int64_t place, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
      CHECK(runs.at(i + k) == place + k);
      stretched.push_back(place + k);
    }
  });
  CHECK(stretched == std::vector<std::int64_t>{3, 4, 9, 10, 11, 16, 17});
}

TEST_CASE("a whole is read from the runs of two ranks", "[checkpoint]") {
  CHECK(covered_elements(halves()) == 24);
  const std::vector<std::string> row = places(halves(), 6, 6);
  CHECK(row == std::vector<std::string>{"a:20", "a:24", "a:28", "b:12", "b:16", "b:20"});
  CHECK(places(halves(), 0, 24).size() == 24);
}

TEST_CASE("runs are read from the same runs, from others, and from a whole", "[checkpoint]") {
  const runtime::ElementRuns right{.length = 3, .distance = 6, .first = 3};
  CHECK(places(halves(), 5, 4, right) == std::vector<std::string>{"b:20", "b:24", "b:100", "b:104"});
  const runtime::ElementRuns middle{.length = 2, .distance = 6, .first = 2};
  CHECK(places(halves(), 0, 4, middle) == std::vector<std::string>{"a:16", "b:0", "a:28", "b:12"});
  const TensorRecord whole{
      .shape = {4, 6}, .order = {}, .pieces = {{.file = "w", .byte = 0, .offset = 0, .count = 24}}};
  CHECK(places(whole, 1, 3, middle) == std::vector<std::string>{"w:12", "w:32", "w:36"});
}

TEST_CASE("elements that no rank wrote are an error", "[checkpoint]") {
  TensorRecord record = halves();
  record.pieces.pop_back();
  CHECK(covered_elements(record) == 17);
  CHECK_THROWS_WITH(pieces_within("t", record, 0, 24), Catch::Contains("elements from 3 of tensor t"));
}

}  // namespace
}  // namespace trainctl::checkpoint

#include "comm/device_mesh.h"

#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "comm/world.h"
#include "members.h"
#include "support/placed_group.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;
using Members = std::vector<std::int64_t>;
using testing::no_errors;
using testing::on_threads;
using testing::PlacedGroup;

/// The members of the group over `axes` that rank `rank` makes; all ranks where it makes none.
Members members_over(const MeshShape& shape, std::int64_t rank, const Members& nodes,
                     std::initializer_list<Axis> axes) {
  PlacedGroup world(rank, nodes);
  DeviceMesh mesh(world, shape);
  Group& group = mesh.over(axes);
  if (!world.splits.empty()) return world.splits.front().second;
  if (&group != &world) return {rank};
  Members all(nodes.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST_CASE("the last axis joins neighbours, the first the ranks that are farthest apart", "[comm]") {
  const MeshShape shape{.pipeline = 2, .data = 2, .tensor = 2};
  const Members one_node(8, 0);
  CHECK(members_over(shape, 5, one_node, {Axis::tensor}) == Members{4, 5});
  CHECK(members_over(shape, 5, one_node, {Axis::data}) == Members{5, 7});
  CHECK(members_over(shape, 5, one_node, {Axis::pipeline}) == Members{1, 5});
  CHECK(members_over(shape, 5, one_node, {Axis::data, Axis::tensor}) == Members{4, 5, 6, 7});
  CHECK(members_over(shape, 5, one_node, {Axis::pipeline, Axis::tensor}) == Members{0, 1, 4, 5});
  CHECK(members_over(shape, 5, one_node, {Axis::pipeline, Axis::data, Axis::tensor}).size() == 8);
  CHECK(members_over(shape, 5, one_node, {Axis::context}) == Members{5});
}

TEST_CASE("neighbours are on one node, however the launcher numbered the ranks", "[comm]") {
  const MeshShape pairs{.data = 2, .shard = 2};
  CHECK(members_over(pairs, 1, {0, 0, 1, 1}, {Axis::shard}) == Members{0, 1});
  CHECK(members_over(pairs, 2, {0, 1, 0, 1}, {Axis::shard}) == Members{0, 2});  // one by one over the nodes
  CHECK(members_over(pairs, 2, {0, 1, 0, 1}, {Axis::data}) == Members{2, 3});
  CHECK(members_over({.data = 3, .shard = 2}, 5, {0, 0, 1, 1, 2, 2}, {Axis::data}) == Members{1, 3, 5});
}

TEST_CASE("a mesh tells where a rank is, and makes each group once", "[comm]") {
  PlacedGroup world(6, Members(8, 0));
  DeviceMesh mesh(world, {.pipeline = 2, .shard = 2, .tensor = 2});
  CHECK(mesh.place(Axis::pipeline) == 1);
  CHECK(mesh.place(Axis::data) == 0);
  CHECK(mesh.place(Axis::shard) == 1);
  CHECK(mesh.place(Axis::tensor) == 0);
  CHECK(mesh.size(Axis::shard) == 2);
  CHECK(&mesh.batch() == &mesh.over({Axis::shard}));  // data has one place
  REQUIRE(world.splits.size() == 1);
  CHECK(world.splits.front().first == "shard");
  CHECK(&mesh.world() == &world);
}

TEST_CASE("groups of a mesh compute side by side", "[comm]") {
  const auto groups = thread_groups(8, 20s);
  REQUIRE(on_threads(8, [&](std::int64_t rank) {
            DeviceMesh mesh(*groups[static_cast<std::size_t>(rank)], {.pipeline = 2, .data = 2, .tensor = 2});
            const auto sum = [&](std::initializer_list<Axis> axes) {
              const at::Tensor mine = at::full({1}, rank, at::kLong);
              mesh.over(axes).all_reduce(mine, Reduce::sum)->wait();
              return mine.item<std::int64_t>();
            };
            if (sum({Axis::tensor}) != 2 * (rank / 2 * 2) + 1) throw std::logic_error("tensor");
            if (sum({Axis::pipeline}) != 2 * (rank % 4) + 4) throw std::logic_error("pipeline");
            if (sum({Axis::data, Axis::tensor}) != (rank < 4 ? 6 : 22)) throw std::logic_error("of a stage");
            if (rank < 4 && sum({Axis::data}) != 2 * (rank % 2) + 2) throw std::logic_error("of some ranks only");
          }) == no_errors(8));
}

}  // namespace
}  // namespace trainctl::comm

#include <catch2/catch.hpp>

#include "core/error.h"
#include "distributed/distributed.h"
#include "support/placed_group.h"

namespace trainctl::distributed {
namespace {

using Members = std::vector<std::int64_t>;

/// The ranks on the axes data and shard.
std::pair<std::int64_t, std::int64_t> data_and_shard(const DistributedKindConfig& how, const Members& nodes) {
  const testing::PlacedGroup world(0, nodes);
  DistributedConfig config;
  config.how = how;
  const comm::MeshShape shape = mesh_shape(config, world);
  CHECK(shape.num_ranks() == world.size());
  return {shape.data, shape.shard};
}

TEST_CASE("replicas lie on the data axis, shards on the shard axis", "[distributed]") {
  CHECK(data_and_shard(AutoDistributedConfig{}, {0, 0, 1, 1}) == std::pair<std::int64_t, std::int64_t>(4, 1));
  CHECK(data_and_shard(DdpConfig{}, {0, 0, 1, 1}) == std::pair<std::int64_t, std::int64_t>(4, 1));
  CHECK(data_and_shard(ZeroConfig{}, {0, 0, 1, 1}) == std::pair<std::int64_t, std::int64_t>(1, 4));
}

TEST_CASE("hybrid sharding deals parameters within groups of a given size", "[distributed]") {
  const ZeroConfig pairs{.shard = std::int64_t{2}};
  CHECK(data_and_shard(pairs, {0, 0, 1, 1}) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(data_and_shard(pairs, {0, 0, 1, 1, 2, 2}) == std::pair<std::int64_t, std::int64_t>(3, 2));
  CHECK(data_and_shard(pairs, {0, 0, 0, 0}) == std::pair<std::int64_t, std::int64_t>(2, 2));
}

TEST_CASE("the number of copies may be given instead of the shards', or of both", "[distributed]") {
  const testing::PlacedGroup world(0, {0, 0, 0, 0, 0, 0, 0, 0});
  DistributedConfig config{.how = ZeroConfig{}, .data = std::int64_t{2}};
  CHECK(mesh_shape(config, world).shard == 4);
  config.tensor = 2;
  CHECK(mesh_shape(config, world).shard == 2);
  config.how = ZeroConfig{.shard = std::int64_t{2}};
  CHECK(mesh_shape(config, world).data == 2);
  config.how = ZeroConfig{.shard = std::int64_t{4}};
  CHECK_THROWS_WITH(mesh_shape(config, world),
                    Catch::Contains("distributed.data is 2, and the other axes leave 1 rank"));
  config.how = DdpConfig{};
  CHECK_THROWS_WITH(mesh_shape(config, world), Catch::Contains("leave 4 ranks for it"));
  config.how = ZeroConfig{};
  config.data = std::int64_t{3};
  CHECK_THROWS_WITH(mesh_shape(config, world),
                    Catch::Contains("distributed.data is 3, which doesn't divide the 4 ranks"));
}

TEST_CASE("ranks that share sequences share parameters too", "[distributed]") {
  const testing::PlacedGroup world(0, {0, 0, 0, 0, 1, 1, 1, 1});
  DistributedConfig config{.how = ZeroConfig{}, .context = 2};
  CHECK(mesh_shape(config, world).shard == 4);
  config.how = ZeroConfig{.shard = std::int64_t{2}};
  const comm::MeshShape shape = mesh_shape(config, world);
  CHECK(shape.data == 2);
  CHECK(shape.shard == 2);
  CHECK(shape.context == 2);
  config.how = DdpConfig{};
  CHECK(mesh_shape(config, world).data == 4);
}

TEST_CASE("ranks that can't be dealt evenly are refused", "[distributed]") {
  CHECK_THROWS_WITH(data_and_shard(ZeroConfig{.shard = std::int64_t{2}}, {0, 0, 0}),
                    Catch::Contains("doesn't divide the 3 ranks"));
}

}  // namespace
}  // namespace trainctl::distributed

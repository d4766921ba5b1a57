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

TEST_CASE("hybrid sharding deals parameters within a node, or within a group of a given size", "[distributed]") {
  const ZeroConfig hybrid{.sharding = Sharding::hybrid};
  CHECK(data_and_shard(hybrid, {0, 0, 1, 1}) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(data_and_shard(hybrid, {0, 0, 1, 1, 2, 2}) == std::pair<std::int64_t, std::int64_t>(3, 2));
  CHECK(data_and_shard(hybrid, {0, 0, 0}) == std::pair<std::int64_t, std::int64_t>(1, 3));
  const ZeroConfig pairs{.sharding = Sharding::hybrid, .shard_group_size = 2};
  CHECK(data_and_shard(pairs, {0, 0, 0, 0}) == std::pair<std::int64_t, std::int64_t>(2, 2));
}

TEST_CASE("ranks that share sequences share parameters too", "[distributed]") {
  const testing::PlacedGroup world(0, {0, 0, 0, 0, 1, 1, 1, 1});
  DistributedConfig config{.how = ZeroConfig{}, .context = 2};
  CHECK(mesh_shape(config, world).shard == 4);
  config.how = ZeroConfig{.sharding = Sharding::hybrid};
  const comm::MeshShape shape = mesh_shape(config, world);
  CHECK(shape.data == 2);
  CHECK(shape.shard == 2);
  CHECK(shape.context == 2);
  config.how = DdpConfig{};
  CHECK(mesh_shape(config, world).data == 4);
  config.how = ZeroConfig{.sharding = Sharding::hybrid, .shard_group_size = 1};
  CHECK_THROWS_WITH(mesh_shape(config, world),
                    Catch::Contains("doesn't divide the 1 rank of a group that shares parameters"));
}

TEST_CASE("ranks that can't be dealt evenly are refused", "[distributed]") {
  const ZeroConfig pairs{.sharding = Sharding::hybrid, .shard_group_size = 2};
  CHECK_THROWS_WITH(data_and_shard(pairs, {0, 0, 0}), Catch::Contains("doesn't divide the 3 ranks"));
  CHECK_THROWS_WITH(data_and_shard(ZeroConfig{.sharding = Sharding::hybrid}, {0, 0, 1}),
                    Catch::Contains("one has 1 and another 2"));
}

}  // namespace
}  // namespace trainctl::distributed

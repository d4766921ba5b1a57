#include "distributed/shard_groups.h"

#include <catch2/catch.hpp>

#include "core/error.h"

namespace trainctl::distributed {
namespace {

using Members = std::vector<std::int64_t>;

/// A group whose parts are remembered, on nodes that a test chooses.
class Placed final : public comm::Group {
 public:
  Placed(std::int64_t rank, Members nodes) : rank_(rank), nodes_(std::move(nodes)) {}
  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(nodes_.size()); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor, comm::Reduce) override { return nullptr; }
  std::unique_ptr<comm::Work> all_gather(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> broadcast(at::Tensor, std::int64_t) override { return nullptr; }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> part(const Members& members) override {
    parts.push_back(members);
    return comm::alone();
  }

  std::vector<Members> parts;

 private:
  std::int64_t rank_;
  Members nodes_;
};

/// Those with whom a rank shares, and those with its part.
std::vector<Members> parts_of(const ZeroConfig& config, std::int64_t rank, const Members& nodes) {
  Placed placed(rank, nodes);
  make_shard_groups(config, placed);
  return placed.parts;
}

TEST_CASE("parts are dealt within a node, however the launcher numbered the ranks", "[distributed]") {
  const ZeroConfig hybrid{.sharding = Sharding::hybrid};
  CHECK(parts_of(hybrid, 1, {0, 0, 1, 1}) == std::vector<Members>{{0, 1}, {1, 3}});
  CHECK(parts_of(hybrid, 2, {0, 1, 0, 1}) == std::vector<Members>{{0, 2}, {2, 3}});  // one by one over the nodes
  CHECK(parts_of(hybrid, 5, {0, 0, 1, 1, 2, 2}) == std::vector<Members>{{4, 5}, {1, 3, 5}});
  CHECK(parts_of(hybrid, 1, {0, 0, 0}).empty());  // one node: all share
  CHECK(parts_of({}, 1, {0, 0, 1, 1}).empty());
}

TEST_CASE("a group's size may be told", "[distributed]") {
  const ZeroConfig pairs{.sharding = Sharding::hybrid, .shard_group_size = 2};
  CHECK(parts_of(pairs, 2, {0, 0, 0, 0}) == std::vector<Members>{{2, 3}, {0, 2}});
  CHECK_THROWS_WITH(parts_of(pairs, 0, {0, 0, 0}), Catch::Contains("doesn't divide the 3 ranks"));
}

TEST_CASE("nodes with different numbers of ranks are refused", "[distributed]") {
  CHECK_THROWS_WITH(parts_of({.sharding = Sharding::hybrid}, 0, {0, 0, 1}), Catch::Contains("one has 1 and another 2"));
}

}  // namespace
}  // namespace trainctl::distributed

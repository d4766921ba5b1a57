#include "distributed/shard_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace trainctl::distributed {
namespace {

using Members = std::vector<std::int64_t>;

/// Returns the number of ranks per node; throws if nodes differ.
std::int64_t ranks_of_a_node(const comm::Group& all) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t node : all.nodes()) ++counts[node];
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end(),
                                                 [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second != most->second)
    throw core::Error("hybrid sharding wants as many ranks on each node; one has " + std::to_string(least->second) +
                      " and another " + std::to_string(most->second))
        .hint("set distributed.shard_group_size to a number that divides " + std::to_string(all.size()));
  return least->second;
}

std::int64_t group_size(const ZeroConfig& config, const comm::Group& all) {
  if (config.sharding == Sharding::full) return all.size();
  const std::int64_t size = config.shard_group_size > 0 ? config.shard_group_size : ranks_of_a_node(all);
  if (all.size() % size != 0)
    throw core::Error("distributed.shard_group_size is " + std::to_string(size) + ", which doesn't divide the " +
                      std::to_string(all.size()) + " ranks")
        .hint("every group has the same number of ranks");
  return size;
}

}  // namespace

ShardGroups make_shard_groups(const ZeroConfig& config, comm::Group& all) {
  const std::int64_t size = group_size(config, all);
  if (size == all.size()) return {.all = all, .own_shards = nullptr, .copies = nullptr};
  Members order(static_cast<std::size_t>(all.size()));  // neighbours are on one node, whatever the launcher's order
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return all.nodes()[static_cast<std::size_t>(a)] < all.nodes()[static_cast<std::size_t>(b)];
  });
  const std::int64_t place = std::find(order.begin(), order.end(), all.rank()) - order.begin();
  Members shards;
  Members copies;
  for (std::int64_t i = 0; i < size; ++i) shards.push_back(order[static_cast<std::size_t>(place / size * size + i)]);
  for (std::int64_t i = place % size; i < all.size(); i += size) copies.push_back(order[static_cast<std::size_t>(i)]);
  ShardGroups groups{.all = all, .own_shards = all.part(shards), .copies = nullptr};
  groups.copies = all.part(copies);
  return groups;
}

}  // namespace trainctl::distributed

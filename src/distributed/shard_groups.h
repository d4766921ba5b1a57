// Who shares a parameter, and who has the same part of it.
#pragma once

#include <memory>

#include "comm/group.h"
#include "distributed/config.h"

namespace trainctl::distributed {

struct ShardGroups {
  comm::Group& all;
  std::unique_ptr<comm::Group> own_shards;  // null: all share
  std::unique_ptr<comm::Group> copies;      // those with the same part, in the same order everywhere; null: nobody else

  comm::Group& shards() const { return own_shards ? *own_shards : all; }
};

/// Hybrid sharding (torch's HYBRID_SHARD, MiCS: https://arxiv.org/abs/2205.00119): groups of ranks that are near each
/// other. An Error where the ranks can't be dealt evenly. Called by all members.
ShardGroups make_shard_groups(const ZeroConfig& config, comm::Group& all);

}  // namespace trainctl::distributed

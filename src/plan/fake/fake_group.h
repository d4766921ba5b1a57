// Ranks that only one of is there: collectives move nothing, but hold the memory that they would.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "comm/group.h"

namespace trainctl::plan {

class MemoryTracker;

struct ImaginedRanks {
  std::int64_t world = 1;
  std::int64_t per_node = 8;
  bool copies = true;  // collectives go through a temporary as large as what they move, as Gloo's do
};

/// This one is the first. Needs a FakeTensorScope; `log` outlives the group.
std::unique_ptr<comm::Group> fake_group(const ImaginedRanks& ranks, MemoryTracker& log);

}  // namespace trainctl::plan

// Ranks that only one of is there: collectives move nothing, but hold the memory that they would.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "comm/group.h"
#include "plan/sent_numbers.h"

namespace trainctl::plan {

class MemoryTracker;

struct ImaginedRanks {
  std::int64_t world = 1;
  std::int64_t rank = 0;  // that there is
  std::int64_t per_node = 8;
  bool copies = true;            // collectives go through a temporary as large as what they move, as Gloo's do
  double* sent_bytes = nullptr;  // what this rank sends in sums and to single ranks is added to it; outlives the group
  SentNumbers* sent_numbers = nullptr;  // outlives the group
};

/// Needs a FakeTensorScope; `log` outlives the group.
std::unique_ptr<comm::Group> fake_group(const ImaginedRanks& ranks, MemoryTracker& log);

}  // namespace trainctl::plan

// A group of which one rank is there: what it communicates is recorded, and is done at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/group.h"
#include "plan/rehearsal/recorder.h"
#include "plan/sent_numbers.h"

namespace trainctl::plan {

/// The ranks of a rehearsal.
struct RehearsedRanks {
  std::int64_t world = 1;
  std::int64_t rank = 0;  // that is there
  std::int64_t per_node = 1;
  SentNumbers* sent_numbers = nullptr;  // outlives the group
};

/// Its collectives give what they would if all ranks had this one's values; sums stay as they are. What other ranks
/// send is zeros. `recorder` outlives the group.
std::unique_ptr<comm::Group> recording_group(const RehearsedRanks& ranks, Recorder& recorder);

}  // namespace trainctl::plan

// What members tell each other in words.
#pragma once

#include <string>
#include <vector>

#include "comm/group.h"

namespace trainctl::checkpoint {

/// Returns the text of each member, in the order of ranks. All members call it.
std::vector<std::string> gather_texts(comm::Group& group, const std::string& mine);

}  // namespace trainctl::checkpoint

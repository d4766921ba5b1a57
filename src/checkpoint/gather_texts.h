// What members tell each other in words.
#pragma once

#include <string>
#include <vector>

#include "cluster/group.h"

namespace trainctl {

/// Of each member, in the order of ranks. Called by all.
std::vector<std::string> gather_texts(Group& group, const std::string& mine);

}  // namespace trainctl

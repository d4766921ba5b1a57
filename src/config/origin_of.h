// Where a value was written.
#pragma once

#include <string_view>

#include "config/node.h"

namespace trainctl::config {

/// Returns where a key was written, else where the nearest mapping around it was.
Origin origin_of(const Node& root, std::string_view path);

}  // namespace trainctl::config

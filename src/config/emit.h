// Node -> YAML text that reads back as the same tree.
#pragma once

#include <string>

#include "config/node.h"

namespace trainctl::config {

enum class Comments { none, origins };

/// With `origins`, each value's line ends in where it comes from: `lr: 0.001  # exp.yaml:12`.
std::string emit(const Node& root, Comments comments = Comments::none);

/// A scalar, null or list of them in one line: `[16, 32]`, `"1.0"`, `null`.
std::string emit_inline(const Node& node);

/// Whether a node is written on the line of its key: a scalar, null, anything empty, or a list of scalars.
bool is_inline(const Node& node);

}  // namespace trainctl::config

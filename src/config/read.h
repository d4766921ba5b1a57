// Node -> typed config struct. Reports every unknown, missing, mistyped and out-of-range key, each at its own place.
#pragma once

#include <string>

#include "config/node.h"
#include "config/problems.h"
#include "config/shape.h"

namespace trainctl::config {

/// Fills `value` (which has its defaults) with what `node` says; what can't be read keeps its default. `path` is where
/// the node stands in the whole.
void read_into(const Shape& shape, const Node& node, void* value, Problems& problems, const std::string& path = "");

template <Described T>
T read(const Node& node, Problems& problems, const std::string& path = "") {
  T value;
  read_into(shape_of<T>(), node, &value, problems, path);
  return value;
}

/// What a value of this shape looks like, in words: "a positive number", "one of fp32, tf32, bf16 or fp16".
std::string expected_text(const Shape& shape, const Limits& limits);
/// "from 0 to 1", "above 0", "at least 1 and below 5", or "".
std::string range_text(const Limits& limits);

}  // namespace trainctl::config

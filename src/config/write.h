// Typed config struct -> Node, complete: every key, defaults included.
#pragma once

#include "config/node.h"
#include "config/shape.h"

namespace trainctl::config {

Node write_value(const Shape& shape, const void* value);

template <Described T>
Node write(const T& value) {
  return write_value(shape_of<T>(), &value);
}

/// Gives each key and value of `complete` the origin that it has in `written`, where it is there (short forms
/// expanded).
void adopt_origins(Node& complete, const Node& written);

}  // namespace trainctl::config

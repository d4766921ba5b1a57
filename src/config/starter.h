// A commented file to start from: what was chosen stands as it is, every default stands commented out with its meaning.
#pragma once

#include <string>

#include "config/shape.h"

namespace trainctl::config {

/// `value` is of this shape; keys whose value isn't the default are what was chosen.
std::string starter_text(const Shape& shape, const void* value);

}  // namespace trainctl::config

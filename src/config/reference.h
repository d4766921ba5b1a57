// A config type as a Markdown reference: one section of tables for each key of the root.
#pragma once

#include <string>

#include "config/shape.h"

namespace trainctl::config {

std::string markdown_reference(const Shape& root, const std::string& title);

}  // namespace trainctl::config

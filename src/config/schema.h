// A config type as a JSON schema (draft 2020-12), from which editors complete and validate.
#pragma once

#include <string>

#include "config/shape.h"

namespace trainctl::config {

/// Accepts what read() accepts, save for rules across keys. With `base:` no key is demanded, since the base may have
/// it. Properties that several mappings share stand once.
std::string json_schema(const Shape& root, const std::string& title);

}  // namespace trainctl::config

// Text in HTML pages.
#pragma once

#include <string>
#include <string_view>

namespace trainctl::core {

/// With what HTML would take for markup written out.
std::string escape_html(std::string_view text);

}  // namespace trainctl::core

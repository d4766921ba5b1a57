// report.html: summary.json as a page for people. The page holds the whole document and draws it, so its numbers are
// the document's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainctl::profiler {

/// Under 5 MB: of a summary that is larger, the shortest intervals of the timeline are left out, which the page says.
std::string format_page(const nlohmann::json& summary);

}  // namespace trainctl::profiler

// Makes a JSON schema short: what stands in it more than once is said once.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace trainctl::config {

/// Moves properties that several mappings share, such as those that stand beside every kind, to $defs.
void share_repeated_properties(nlohmann::ordered_json& schema);

/// The document, with each object or list on one line where it fits.
std::string print_narrowly(const nlohmann::ordered_json& document);

}  // namespace trainctl::config

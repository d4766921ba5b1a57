// Keys and kinds that have other names elsewhere: in older files, or in other trainers. Who writes such a name is told
// trainctl's, at its place.
#pragma once

#include <span>
#include <string_view>

#include "config/node.h"
#include "config/problems.h"

namespace trainctl::config {

/// A name that another one took the place of, anywhere below a section of the file.
struct Renamed {
  std::string_view section;             // "model"; "" for a section itself
  std::string_view was;                 // a key, "max_positions"; or a key's value, "kind: every_block"
  std::string_view now;                 // as `was`; with a dot, the path of a key elsewhere: "watchdog.step_multiple"
  std::string_view unless_beside = "";  // a key beside which `was` is still a name
};

/// Adds a problem for each such name in the file, "renamed to 'lr'" for the phrase "renamed to", and replaces the name.
/// Values under such names are therefore checked, too; a key that moved is removed. Short forms must be expanded
/// before.
void refuse_renamed(Node& root, std::span<const Renamed> list, std::string_view phrase, Problems& problems);

}  // namespace trainctl::config

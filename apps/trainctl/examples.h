// The examples of each command: its help ends with them, and its manual page has them.
#pragma once

#include <string_view>
#include <vector>

namespace trainctl::cli {

struct Example {
  const char* line;    // as it is typed
  const char* effect;  // what the line does
};

/// Returns the examples of "train" or "data prepare". A command with sub-commands has those of all of them.
std::vector<Example> examples_of(std::string_view command);

}  // namespace trainctl::cli

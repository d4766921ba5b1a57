// What the value of an option or of a positional may be.
#pragma once

#include "complete.h"

namespace trainctl::cli {

struct ValueQuestion {
  const CLI::Option& option;
  const std::string& word;               // what is typed of the value
  std::string experiment;                // first positional of the line, "" if there is none
  const std::vector<std::string>& sets;  // values of --set before
};

/// Answers from the option's type: its choices, and files, runs, keys or strategies by the names that the help shows.
Completion complete_value(const ValueQuestion& question);

}  // namespace trainctl::cli

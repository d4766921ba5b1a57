// A fact about the machine, as `trainctl doctor` shows it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainctl::cli {

struct Finding {
  std::string key;                // in the JSON document
  std::string subject;            // in the table
  std::string text;               // for a person; a line break begins another line of the table
  nlohmann::ordered_json values;  // for a program
  std::string problem;            // what is missing or does not work; empty if nothing
  std::string hint;               // the line that gets what is missing
};

}  // namespace trainctl::cli

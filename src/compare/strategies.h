// Strategies that a run can do with or without, as lines of YAML.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace trainctl::compare {

struct Strategy {
  std::string name;
  std::vector<std::string> on;   // assignments "a.b=v", as --set takes them; none: the experiment has it
  std::vector<std::string> off;  // likewise
  bool is_on = false;            // in the experiment as it is
};

/// Names that find_strategies() knows, in the order of the help.
std::vector<std::string> strategy_names();

/// Whether the experiment's network has convolutions.
enum class Convolutions { none, some };

/// What the names mean for an experiment, given by its flattened config ("amp.mode" -> "fp32"). A name that nobody
/// knows, or that makes no difference to this experiment, is a ConfigError that says why.
std::vector<Strategy> find_strategies(std::span<const std::string> names,
                                      const std::map<std::string, std::string>& flat_config, Convolutions convolutions);

}  // namespace trainctl::compare

// A tree as "optimizer.lr" -> "0.001", to be stored and compared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/node.h"

namespace trainctl::config {

/// One entry for each scalar, null and list of scalars, written as in YAML.
std::map<std::string, std::string> flatten(const Node& root);

/// The origins of the same entries that no default gave: "optimizer.lr" -> "exp.yaml:12:7". Of a list it is that of its
/// first item, if the list itself has none.
std::map<std::string, std::string> origins_of(const Node& root);

/// A key whose value differs; an empty side means that the key isn't there.
struct Difference {
  std::string path;
  std::string was;
  std::string now;
};

/// In the order of the paths.
std::vector<Difference> diff(const std::map<std::string, std::string>& was,
                             const std::map<std::string, std::string>& now);

}  // namespace trainctl::config

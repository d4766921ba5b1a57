// The keys of a config type as a list, for the completion of a command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "config/shape.h"

namespace trainctl::config {

/// A key that `--set` may name.
struct KeyDescription {
  std::string path;  // "optimizer.lr"
  std::string_view help;
  std::vector<std::string_view> words;  // words that the value may be: kinds, names, true, false, auto, null
};

/// Lists the keys of a mapping that `shape` describes, in the order of the reference. The kinds that `stated` chooses
/// bring their keys; without a choice, each kind does. Keys of mappings inside lists are left out.
std::vector<KeyDescription> list_keys(const Shape& shape, const Node* stated = nullptr);

}  // namespace trainctl::config

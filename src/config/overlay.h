// An experiment file over its `base:`, and `--set` over both. Origins survive.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "config/node.h"
#include "config/problems.h"
#include "config/shape.h"

namespace trainctl::config {

inline constexpr int kMaxBases = 8;

/// Lays `over` over `base`: mappings merge key by key, other values replace; a mapping whose `kind` differs replaces
/// too.
void overlay(Node& base, Node over);

/// The file at `path` over its chain of bases (each relative to the file that names it), short forms written out.
std::optional<Node> load_with_bases(const Shape& shape, const std::filesystem::path& path, Problems& problems);

/// Applies "a.b=v" (v is YAML; "transforms[0].p=1" and "transforms.0.p=1" index): replaces the value at that path.
void apply_set(const Shape& shape, Node& root, const std::string& assignment, Problems& problems);

}  // namespace trainctl::config

// The parts of a checkpoint that ranks write side by side, and how they become one.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace trainctl::checkpoint {

/// All parts of this attempt, once they are there; none where `is_abandoned` before that. A rank's failure is an Error.
std::optional<std::vector<Part>> wait_for_parts(const std::filesystem::path& directory, std::int64_t count,
                                                std::int64_t attempt, const std::function<bool()>& is_abandoned);

/// Takes this rank's file away, which makes room, and leaves word for the first rank.
void leave_failure(const std::filesystem::path& directory, const std::string& part, const std::string& what);

struct Contents {
  Manifest manifest;
  Values values;
};
/// An Error where they don't hold everything.
Contents merge_parts(const std::vector<Part>& parts);

/// A failure to remove is nobody's concern.
void remove_quietly(const std::filesystem::path& path);

}  // namespace trainctl::checkpoint

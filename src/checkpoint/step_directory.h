// What lies in a checkpoints directory: `step_%08d` with a manifest as marker of completeness, the links `latest` and
// `best`, and what is half-written, which has the writer's process id in its name. A file in a step's directory marks
// it as withdrawn.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::checkpoint {

inline constexpr const char* kLatest = "latest";
inline constexpr const char* kBest = "best";
inline constexpr const char* kWithdrawn = "withdrawn";  // in a step's directory

/// "step_00001000".
std::string step_name(std::int64_t step);
std::optional<std::int64_t> step_of_name(const std::string& name);

/// Steps, complete or not, newest first; withdrawn ones come after the others.
std::vector<std::int64_t> steps_newest_first(const std::filesystem::path& checkpoints);
/// Returns whether the run of the step's directory went back behind the step.
bool is_withdrawn(const std::filesystem::path& step_directory);
/// Marks the steps beyond `step` as withdrawn.
void withdraw_beyond(const std::filesystem::path& checkpoints, std::int64_t step);
/// The step that the link names.
std::optional<std::int64_t> linked_step(const std::filesystem::path& link);
/// Makes `link` name the step, atomically.
void update_symlink(const std::filesystem::path& link, std::int64_t step);

/// A name beside `path` that tells whose it is: "step_00001000.tmp-4711".
std::filesystem::path temporary_path(const std::filesystem::path& path, std::int64_t process);
/// Removes what processes that are gone left under such names.
void remove_stale(const std::filesystem::path& checkpoints);
/// Puts `from` in the place of `to`, which may be a directory with content; that is removed.
void replace_directory(const std::filesystem::path& from, const std::filesystem::path& to);
/// Out of sight at once, then removed.
void remove_directory(const std::filesystem::path& directory);

}  // namespace trainctl::checkpoint

#include "dataset/text/store/source_checksums.h"

#include <sys/stat.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNanoseconds = 1'000'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * kNanoseconds + time.tv_nsec;
}

nlohmann::json as_json(const FileState& state) {
  return {state.size, state.modified_ns, state.changed_ns, state.inode};
}

/// Returns the checksum in the note of a file in this state; none if the note can't be used.
std::optional<std::string> noted(const fs::path& note, const std::string& path, const FileState& state) {
  std::error_code unknown;
  if (!fs::is_regular_file(note, unknown)) return std::nullopt;
  try {
    const nlohmann::json json = core::parse_json(core::read_file(note, 1 << 20), note.string());
    if (json.at("path") == path && json.at("state") == as_json(state)) return json.at("checksum").get<std::string>();
  } catch (const nlohmann::json::exception&) {  // damaged: made anew
  } catch (const core::Error&) {
  }
  return std::nullopt;
}

/// Returns whether a change would show in the file's time. A file written a moment ago may be written again at the same
/// time.
bool is_settled(const FileState& state) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return state.modified_ns < nanoseconds(now) - 2 * kNanoseconds;
}

}  // namespace

FileState file_state(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) throw core::system_error("open", file.string());
  return {.size = status.st_size,
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim),
          .inode = static_cast<std::int64_t>(status.st_ino)};
}

std::string SourceChecksums::of(const fs::path& file) const {
  const std::string path = fs::absolute(file).lexically_normal().string();
  const FileState state = file_state(file);
  const fs::path note = directory_ / (core::checksum(path) + ".json");
  if (const std::optional<std::string> known = noted(note, path, state)) return *known;
  const std::string sum = core::checksum_file(file);
  if (!is_settled(state) || file_state(file) != state) return sum;
  try {
    fs::create_directories(directory_);
    const nlohmann::json json{{"path", path}, {"state", as_json(state)}, {"checksum", sum}};
    core::write_file_atomically(note, json.dump() + "\n");
  } catch (const fs::filesystem_error&) {  // a cache that can't be written only costs time
  } catch (const core::Error&) {
  }
  return sum;
}

}  // namespace trainctl::dataset

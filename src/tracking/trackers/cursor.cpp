#include "tracking/trackers/cursor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

fs::path cursor_path(const fs::path& run_directory, const std::string& tracker) {
  return run_directory / ".tracking" / (tracker + ".json");
}

CursorValue parse_cursor(const ordered_json& json) {
  CursorValue value;
  try {
    value.position = {json.at("offset").get<std::int64_t>(), json.at("checksum").get<std::string>()};
    value.state = json.at("state");
    value.finished = json.at("finished").get<std::string>();
  } catch (const ordered_json::exception&) {  // of another version, or damaged: all is delivered again
    return {};
  }
  return value;
}

CursorValue read_cursor_file(const fs::path& path) {
  if (!fs::exists(path)) return {};
  return parse_cursor(core::parse_json_or_discard<ordered_json>(core::read_file(path)));
}

}  // namespace

CursorValue read_cursor(const fs::path& run_directory, const std::string& tracker) {
  return read_cursor_file(cursor_path(run_directory, tracker));
}

Cursor::Cursor(const fs::path& run_directory, const std::string& tracker) : path_(cursor_path(run_directory, tracker)) {
  fs::create_directories(path_.parent_path());
  const fs::path lock = path_.parent_path() / (tracker + ".lock");
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw core::system_error("open", lock.string());
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const bool is_held = errno == EWOULDBLOCK;
  ::close(lock_);
  if (!is_held) throw core::system_error("lock", lock.string());
  throw core::Error("another process delivers " + run_directory.string() + " to " + tracker)
      .hint("wait until the run or the other `trainctl track` has ended");
}

Cursor::~Cursor() {
  ::close(lock_);
}

CursorValue Cursor::read() const {
  return read_cursor_file(path_);
}

void Cursor::write(const CursorValue& value) const {
  const ordered_json json = {{"offset", value.position.offset},
                             {"checksum", value.position.checksum},
                             {"state", value.state},
                             {"finished", value.finished}};
  fs::create_directories(path_.parent_path());  // with the run directory, it may have been removed
  core::write_file_atomically(path_, core::indented_json(json) + "\n");
}

}  // namespace trainctl::tracking

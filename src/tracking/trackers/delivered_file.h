// A file that a tracker appends to, from one delivery to the next. After a kill, what the cursor does not know of is
// cut off and comes again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace trainctl::tracking {

class DeliveredFile {
 public:
  explicit DeliveredFile(std::filesystem::path path) : path_(std::move(path)) {}
  DeliveredFile(const DeliveredFile&) = delete;
  DeliveredFile& operator=(const DeliveredFile&) = delete;
  ~DeliveredFile();

  /// Opens the file, which had so many bytes after the last delivery. Returns false if the file is gone or shorter.
  bool go_on(std::int64_t size);
  /// Writes a file of another content, which takes the place of the former one at the first commit().
  void begin();

  void append(std::string_view bytes) { appended_.append(bytes); }
  /// Returns the size with what is appended.
  std::int64_t size() const { return written_ + static_cast<std::int64_t>(appended_.size()); }
  /// Writes what is appended.
  void commit();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path beside_;  // while the content waits to take the former one's place
  int descriptor_ = -1;
  std::int64_t written_ = 0;
  std::string appended_;
};

/// Returns the name of a tracker's own file or folder that a cursor's state has. Throws DamagedState for any other
/// name: a stranger's run directory must not lead out of itself.
std::string own_name(const nlohmann::ordered_json& state, const char* key, std::string_view prefix);

}  // namespace trainctl::tracking

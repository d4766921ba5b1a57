#include "checkpoint/step_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kTemporary = ".tmp-";

template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw core::system_error("rename into place", to.string());
}

}  // namespace

std::string step_name(std::int64_t step) {
  char text[40];
  std::snprintf(text, sizeof text, "step_%08lld", static_cast<long long>(step));
  return text;
}

std::optional<std::int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const auto step = number_of<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
  return step && step_name(*step) == name ? step : std::nullopt;
}

std::vector<std::int64_t> steps_newest_first(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error))
    if (const auto step = step_of_name(entry.path().filename().string()))
      if (!entry.is_symlink(error)) steps.push_back(*step);
  if (error && error != std::errc::no_such_file_or_directory)
    throw core::Error("cannot list " + checkpoints.string() + ": " + error.message());
  std::sort(steps.rbegin(), steps.rend());
  std::stable_partition(steps.begin(), steps.end(),
                        [&](std::int64_t step) { return !is_withdrawn(checkpoints / step_name(step)); });
  return steps;
}

bool is_withdrawn(const fs::path& step_directory) {
  std::error_code error;
  return fs::exists(step_directory / kWithdrawn, error);
}

void withdraw_beyond(const fs::path& checkpoints, std::int64_t step) {
  for (const std::int64_t other : steps_newest_first(checkpoints)) {
    const fs::path directory = checkpoints / step_name(other);
    if (other > step && !is_withdrawn(directory)) core::write_file_atomically(directory / kWithdrawn, "");
  }
}

std::optional<std::int64_t> linked_step(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::nullopt : step_of_name(target.filename().string());
}

void update_symlink(const fs::path& link, std::int64_t step) {
  const fs::path made = temporary_path(link, ::getpid());
  ::unlink(made.c_str());
  if (::symlink(step_name(step).c_str(), made.c_str()) != 0) throw core::system_error("create link", made.string());
  rename_or_throw(made, link);
}

fs::path temporary_path(const fs::path& path, std::int64_t process) {
  return fs::path(path.string() + std::string(kTemporary) + std::to_string(process));
}

void remove_stale(const fs::path& checkpoints) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.rfind(kTemporary);
    if (at == std::string::npos) continue;
    const auto writer = number_of<pid_t>(std::string_view(name).substr(at + kTemporary.size()));
    // Our own id is that of an earlier process too: ids come again, in containers soon.
    const bool alive = writer && *writer != ::getpid() && (::kill(*writer, 0) == 0 || errno == EPERM);
    if (writer && *writer > 0 && !alive) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
}

void replace_directory(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) throw core::system_error("rename into place", to.string());
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that cannot exchange: between the two renames the step is missing, an older one is not.
    remove_directory(to);
    rename_or_throw(from, to);
    return;
  }
  std::error_code ignored;
  fs::remove_all(from, ignored);
}

void remove_directory(const fs::path& directory) {
  const fs::path out_of_sight = temporary_path(directory.string() + ".old", ::getpid());
  rename_or_throw(directory, out_of_sight);
  std::error_code ignored;
  fs::remove_all(out_of_sight, ignored);
}

}  // namespace trainctl::checkpoint

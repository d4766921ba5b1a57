#include "core/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "core/text.h"

namespace trainctl::core {
namespace {

std::string join_problems(const std::vector<Problem>& problems) {
  std::string all;
  for (const Problem& problem : problems) all += (all.empty() ? "" : "\n") + problem.text();
  return all;
}

constexpr const char* kOutOfMemory = "out of memory";
constexpr const char* kOutOfMemoryHint = "'trainctl plan' says what a run takes; a smaller batch or model takes less";

/// Returns the first line of a library's exception, without the place in its source.
std::string message_without_source(std::string text) {
  text = text.substr(0, text.find('\n'));
  // "[enforce fail at alloc_cpu.cpp:129] condition. what" and "[json.exception.type_error.302] what"
  if (text.starts_with("[enforce fail at ") || text.starts_with("[json.exception."))
    if (const auto end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
  if (const auto condition = text.find(". DefaultCPUAllocator: "); condition != std::string::npos)
    text.erase(0, condition + 2);
  return text;
}

/// Rewrites the message of LibTorch's allocator; returns other lines unchanged.
std::string without_allocator(const std::string& line) {
  constexpr std::string_view kWords = "you tried to allocate ";
  const auto found = line.find(kWords);
  if (found == std::string::npos) return line;
  const double bytes = std::strtod(line.c_str() + found + kWords.size(), nullptr);
  return "there is no room for " + format_bytes(bytes) + " more";
}

bool says_out_of_memory(const std::string& text) {
  for (const char* words : {"can't allocate memory", "not enough memory", "std::bad_alloc", " of host memory: "})
    if (text.find(words) != std::string::npos) return true;
  return false;
}

std::string path_text(const std::filesystem::filesystem_error& error) {
  const std::string first = error.path1().string();
  return error.path2().empty() ? first : first + " to " + error.path2().string();
}

/// Puts the path first: "cannot create directory: Permission denied [a]" has it last, after "filesystem error: ". Of
/// other messages, such as "status: …", the library names its own function.
Error from_filesystem(const std::filesystem::filesystem_error& error) {
  std::string action = error.what();
  constexpr std::string_view kPrefix = "filesystem error: ";
  if (action.starts_with(kPrefix)) action.erase(0, kPrefix.size());
  action = action.substr(0, action.find(": "));
  if (action.find("iterator") != std::string::npos) action = "cannot list";
  if (!action.starts_with("cannot ")) action = "cannot look at";
  return Error(action + " " + path_text(error) + ": " + error.code().message());
}

}  // namespace

Error as_error(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return *ours;
  if (const auto* files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return from_filesystem(*files);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return Error(kOutOfMemory).hint(kOutOfMemoryHint);
  if (dynamic_cast<const std::length_error*>(&error) != nullptr)
    return Error("out of memory: a size is over what this machine can address").hint(kOutOfMemoryHint);
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again)
    return Error("cannot start a thread: " + system->code().message())
        .hint(
            "the limit of processes (ulimit -u, a container's pids) or of memory is too low; fewer "
            "dataset.num_workers and device.num_threads need less");
  const std::string text = error.what();
  const std::string line = message_without_source(text);
  if (says_out_of_memory(line)) return Error(kOutOfMemory + (": " + without_allocator(line))).hint(kOutOfMemoryHint);
  for (const char* words : {"could not create a primitive", "could not execute a primitive"})
    if (text.find(words) != std::string::npos)
      return Error("oneDNN " + line).hint("has memory run out? " + std::string(kOutOfMemoryHint));
  return Error(line);
}

ConfigError::ConfigError(std::vector<Problem> problems)
    : std::runtime_error(join_problems(problems)), problems_(std::move(problems)) {}

Error system_error(std::string_view action, std::string_view path) {
  const int code = errno;
  Error error("cannot " + std::string(action) + " " + std::string(path) + ": " + std::strerror(code));
  if (code == ENOSPC || code == EDQUOT) error.hint("make room there, and run the command again");
  return error;
}

void ensure(bool condition, std::string_view message, std::source_location where) {
  if (condition) return;
  std::fprintf(stderr, "trainctl: bug at %s:%u: %.*s\n", where.file_name(), static_cast<unsigned>(where.line()),
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace trainctl::core

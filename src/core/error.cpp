#include "core/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trainctl {
namespace {

std::string join_problems(const std::vector<Problem>& problems) {
  std::string all;
  for (const Problem& problem : problems) all += (all.empty() ? "" : "\n") + problem.text();
  return all;
}

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : std::runtime_error(join_problems(problems)), problems_(std::move(problems)) {}

Error system_error(std::string_view action, std::string_view path) {
  const int code = errno;
  return Error("cannot " + std::string(action) + " " + std::string(path) + ": " + std::strerror(code));
}

void ensure(bool condition, std::string_view message, std::source_location where) {
  if (condition) return;
  std::fprintf(stderr, "trainctl: bug at %s:%u: %.*s\n", where.file_name(), static_cast<unsigned>(where.line()),
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace trainctl

#include "core/name_pattern.h"

#include <cstddef>

namespace trainctl::core {
namespace {

bool matches_whole(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // the last `*`; retry is where its match last failed
  std::size_t retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

bool matches_name(std::string_view pattern, std::string_view name) {
  for (std::string_view end = name;; end.remove_prefix(end.find('.') + 1)) {
    if (matches_whole(pattern, end)) return true;
    if (end.find('.') == std::string_view::npos) return false;
  }
}

}  // namespace trainctl::core

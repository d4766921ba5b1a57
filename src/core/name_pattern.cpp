#include "core/name_pattern.h"

#include <fnmatch.h>

#include <cstring>

namespace trainctl::core {

bool matches_name(const std::string& pattern, const std::string& name) {
  for (const char* end = name.c_str(); end != nullptr; end = std::strchr(end, '.')) {
    if (end != name.c_str()) ++end;  // behind the dot
    if (::fnmatch(pattern.c_str(), end, FNM_NOESCAPE) == 0) return true;
  }
  return false;
}

}  // namespace trainctl::core

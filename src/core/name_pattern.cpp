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

bool covers_parameter(const std::string& pattern, const std::string& parameter) {
  if (matches_name(pattern, parameter)) return true;
  for (std::size_t dot = parameter.find('.'); dot != std::string::npos; dot = parameter.find('.', dot + 1))
    if (matches_name(pattern, parameter.substr(0, dot))) return true;
  return false;
}

}  // namespace trainctl::core

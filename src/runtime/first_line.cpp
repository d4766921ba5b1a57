#include "runtime/first_line.h"

#include <c10/util/Exception.h>

namespace trainctl {

std::string first_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch == nullptr ? error.what() : torch->what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

}  // namespace trainctl

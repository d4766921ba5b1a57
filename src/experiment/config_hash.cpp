#include "experiment/config_hash.h"

#include "core/file.h"

namespace trainctl::experiment {

std::string config_hash(const std::map<std::string, std::string>& flat) {
  std::string text;
  for (const auto& [key, value] : flat) text += key + "=" + value + "\n";
  return core::checksum(text);
}

}  // namespace trainctl::experiment

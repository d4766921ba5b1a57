#include "experiment/config_hash.h"

#include "core/file.h"

namespace trainctl::experiment {

std::string config_hash(const std::map<std::string, std::string>& flat) {
  std::string text;
  for (const auto& [key, value] : flat) text += key + "=" + value + "\n";
  return core::checksum(text);
}

bool is_run_of(const std::filesystem::path& directory, const std::map<std::string, std::string>& flat) {
  const std::filesystem::path hash = directory / kConfigHashFile;
  return std::filesystem::is_regular_file(hash) && core::read_file(hash) == config_hash(flat);
}

}  // namespace trainctl::experiment

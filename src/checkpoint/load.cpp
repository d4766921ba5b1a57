#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/step_directory.h"
#include "checkpoint/values.h"
#include "core/error.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;

std::optional<Found> sound(const fs::path& step_directory, std::vector<std::string>* passed_over) {
  try {
    return Found{.path = step_directory, .step = verify(step_directory).step};
  } catch (const Error& error) {
    if (passed_over != nullptr) passed_over->push_back(error.what());
    return std::nullopt;
  }
}

}  // namespace

std::optional<Found> find_newest(const fs::path& directory, std::vector<std::string>* passed_over) {
  const fs::path itself = directory.has_filename() ? directory : directory.parent_path();
  if (fs::exists(itself / kManifestFile) || step_of_name(itself.filename().string())) return sound(itself, passed_over);
  const fs::path inside = itself / "checkpoints";
  const fs::path& checkpoints = fs::is_directory(inside) ? inside : itself;
  for (const std::int64_t step : steps_newest_first(checkpoints))
    if (auto found = sound(checkpoints / step_name(step), passed_over)) return found;
  return std::nullopt;
}

Loaded load(const fs::path& step_directory) {
  try {
    verify(step_directory);
    Values values = read_values(step_directory / kValuesFile);
    Loaded loaded{
        .snapshot = {.tensors = read_safetensors(step_directory / kStateFile), .values = std::move(values.values)},
        .info = std::move(values.info)};
    for (auto& [name, tensor] : read_safetensors(step_directory / kModelFile))
      loaded.snapshot.tensors.emplace("model." + name, std::move(tensor));
    return loaded;
  } catch (Error& error) {
    throw error.during("loading checkpoint " + step_directory.string());
  }
}

CheckpointInfo read_info(const fs::path& step_directory) {
  return read_values(step_directory / kValuesFile).info;
}

std::vector<std::string> changed_keys(const CheckpointInfo& info, const std::map<std::string, std::string>& now) {
  constexpr const char* kAbsent = "(not set)";
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [key, value] : info.config) both[key] = {value, kAbsent};
  for (const auto& [key, value] : now) {
    const auto before = info.config.find(key);
    both[key] = {before == info.config.end() ? kAbsent : before->second, value};
  }
  std::vector<std::string> lines;
  for (const auto& [key, values] : both)
    if (values.first != values.second) lines.push_back(key + ": " + values.first + " -> " + values.second);
  return lines;
}

}  // namespace trainctl

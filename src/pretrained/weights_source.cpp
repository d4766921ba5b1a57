#include "pretrained/weights_source.h"

#include <set>

#include "checkpoint/checkpoint.h"
#include "core/error.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::uint64_t kLargestJson = 256 << 20;

nlohmann::json read_json(const fs::path& path) {
  const std::string text = core::read_file(path, kLargestJson);
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw core::Error(path.string() + " is no JSON object");
  return json;
}

/// Returns the files that an index names, each once.
std::set<std::string> shard_names(const nlohmann::json& index, const fs::path& path) {
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty())
    throw core::Error(path.string() + " has no weight_map from tensors to files");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name || name == "." || name == "..")
      throw core::Error(path.string() + ": the file of " + tensor.substr(0, 100) +
                        " isn't the name of a file beside it");
    names.insert(name);
  }
  return names;
}

checkpoint::TensorMap read_shards(const fs::path& directory) {
  const fs::path path = directory / kIndex;
  const nlohmann::json index = read_json(path);
  checkpoint::TensorMap tensors;
  for (const std::string& name : shard_names(index, path)) {
    if (!fs::exists(directory / name))
      throw core::Error(path.string() + " names " + name + ", which isn't there").hint("complete the directory");
    for (auto& [tensor, value] : checkpoint::read_safetensors(directory / name))
      if (!tensors.emplace(tensor, std::move(value)).second)
        throw core::Error(tensor + " is in two files of " + directory.string());
  }
  for (const auto& [tensor, file] : index["weight_map"].items())
    if (!tensors.contains(tensor))
      throw core::Error(path.string() + ": " + tensor.substr(0, 100) + " isn't in " + file.get<std::string>());
  return tensors;
}

/// Opens the weights of a run, a checkpoints or a step directory; none if it has none. An incomplete step directory is
/// refused, although it may have a weights file with the published name.
std::optional<WeightsSource> open_checkpoint(const fs::path& path) {
  std::vector<std::string> passed_over;
  if (const std::optional<checkpoint::Found> found = checkpoint::find_newest(path, &passed_over))
    return WeightsSource{.tensors = fs::exists(found->path / kWeights)
                                        ? checkpoint::read_safetensors(found->path / kWeights)
                                        : checkpoint::Checkpoint(found->path).read_whole("model."),
                         .from = found->path};
  if (passed_over.empty()) return std::nullopt;
  throw core::Error("no complete checkpoint in " + path.string() + ": " + passed_over.front())
      .hint("give another step or run directory, or weights in Hugging Face layout");
}

}  // namespace

WeightsSource open_weights(const fs::path& path) {
  if (!fs::is_directory(path)) return {.tensors = checkpoint::read_safetensors(path), .from = path};
  if (std::optional<WeightsSource> of_a_run = open_checkpoint(path)) return *std::move(of_a_run);
  WeightsSource source{.from = path};
  if (fs::exists(path / "config.json")) source.config_json = read_json(path / "config.json");
  if (fs::exists(path / kWeights)) {
    source.tensors = checkpoint::read_safetensors(path / kWeights);
    return source;
  }
  if (fs::exists(path / kIndex)) {
    source.tensors = read_shards(path);
    return source;
  }
  const bool is_pickle = fs::exists(path / "pytorch_model.bin");
  throw core::Error("no weights in " + path.string() + ": neither " + kWeights +
                    " (nor its index) nor a complete checkpoint")
      .hint(is_pickle
                ? "pytorch_model.bin is a Python program as much as weights: save them with safe_serialization=True"
                : "give a directory in Hugging Face layout, a .safetensors file, or a run or step directory");
}

}  // namespace trainctl::pretrained

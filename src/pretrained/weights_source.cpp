#include "pretrained/weights_source.h"

#include <set>

#include "checkpoint/checkpoint.h"
#include "core/error.h"
#include "core/hub_name.h"
#include "core/json.h"
#include "pretrained/torch_file.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kTorchWeights = "pytorch_model.bin";
constexpr std::uint64_t kLargestJson = 256 << 20;

nlohmann::json read_json(const fs::path& path) {
  const std::string text = core::read_file(path, kLargestJson);
  nlohmann::json json = core::parse_json_or_discard(text);
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

/// Reads one file, in the format of its content.
TorchFile read_file(const fs::path& path) {
  if (is_torch_file(path)) return read_torch_file(path);
  return {.tensors = checkpoint::read_safetensors(path)};
}

/// Returns the name of the list of a directory's shards.
std::string index_of(const char* weights) {
  return std::string(weights) + ".index.json";
}

checkpoint::TensorMap read_shards(const fs::path& path) {
  const fs::path directory = path.parent_path();
  const nlohmann::json index = read_json(path);
  checkpoint::TensorMap tensors;
  for (const std::string& name : shard_names(index, path)) {
    if (!fs::exists(directory / name))
      throw core::Error(path.string() + " names " + name + ", which isn't there").hint("complete the directory");
    for (auto& [tensor, value] : read_file(directory / name).tensors)
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
  const std::optional<checkpoint::Found> found = checkpoint::find_newest(path, &passed_over);
  if (found) {
    const checkpoint::Checkpoint opened(found->path);
    return WeightsSource{.tensors = fs::exists(found->path / kWeights)
                                        ? checkpoint::read_safetensors(found->path / kWeights)
                                        : opened.read_whole("model."),
                         .from = found->path,
                         .note = passed_over.empty() ? "" : "a newer one is damaged: " + passed_over.front(),
                         .config = opened.info().config,
                         .data_description = opened.info().data_description};
  }
  if (passed_over.empty()) return std::nullopt;
  throw core::Error("no complete checkpoint in " + path.string() + ": " + passed_over.front())
      .hint("give another step or run directory, or weights in Hugging Face layout");
}

}  // namespace

WeightsSource open_weights(const fs::path& path) {
  std::error_code unknown;
  if (!fs::exists(path, unknown) && !unknown) throw core::missing_weights_error(path.string());
  const auto open_file = [&](const fs::path& file) {
    TorchFile read = read_file(file);
    return WeightsSource{.tensors = std::move(read.tensors), .from = path, .note = std::move(read.note)};
  };
  if (!fs::is_directory(path)) return open_file(path);
  if (std::optional<WeightsSource> of_a_run = open_checkpoint(path)) return *std::move(of_a_run);
  nlohmann::json config_json;
  if (fs::exists(path / "config.json")) config_json = read_json(path / "config.json");
  for (const char* weights : {kWeights, kTorchWeights}) {
    const fs::path index = path / index_of(weights);
    if (!fs::exists(path / weights) && !fs::exists(index)) continue;
    WeightsSource source = fs::exists(path / weights) ? open_file(path / weights)
                                                      : WeightsSource{.tensors = read_shards(index), .from = path};
    source.config_json = std::move(config_json);
    return source;
  }
  if (fs::exists(path / "adapter_config.json"))
    throw core::Error(path.string() + " has adapters without the weights that they adapt")
        .hint("set model.lora.init_from to it, and model.init_from to the base that adapter_config.json names");
  throw core::Error("no weights in " + path.string() + ": neither " + kWeights + " nor " + kTorchWeights +
                    " (nor an index of one) nor a complete checkpoint")
      .hint("give a directory in Hugging Face layout, a .safetensors or .pth file, or a run or step directory");
}

}  // namespace trainctl::pretrained

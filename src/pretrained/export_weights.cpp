#include "pretrained/export_weights.h"

#include "checkpoint/safetensors.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "model/lora.h"
#include "pretrained/hugging_face_config.h"
#include "pretrained/tokenizer_files.h"
#include "pretrained/transformers_names.h"

namespace trainctl::pretrained {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Returns the weights on the host; floats have single precision.
checkpoint::TensorMap weights_of(model::Model& model) {
  checkpoint::TensorMap tensors;
  const auto add = [&](const std::string& name, model::TensorDecl& decl) {
    const at::Tensor host = decl.value.detach().cpu();
    tensors[name] = host.is_floating_point() ? host.to(at::kFloat) : host;
  };
  model.visit_parameters(add);
  model.visit_buffers(add);
  return tensors;
}

/// Returns {file name, content} of each JSON file.
std::vector<std::pair<std::string, Json>> json_files(const model::NetworkConfig& network, const ModelInfo& facts,
                                                     ExportLayout layout) {
  switch (layout) {
    case ExportLayout::safetensors:
      return {};
    case ExportLayout::timm:
      return {{"config.json", timm_config(network, facts)}};
    case ExportLayout::hugging_face:
      break;
  }
  std::vector<std::pair<std::string, Json>> files{{"config.json", hugging_face_config(network, facts)}};
  if (Json processor = preprocessor_config(network, facts); !processor.is_null())
    files.emplace_back(kPreprocessorConfig, std::move(processor));
  return files;
}

}  // namespace

std::optional<std::string> obstacle_to(ExportLayout layout, const model::NetworkConfig& network,
                                       const ModelInfo& facts) {
  try {
    json_files(network, facts, layout);
  } catch (const core::Error& error) {
    return error.what();
  }
  return std::nullopt;
}

void make_directory(const fs::path& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) throw core::Error("cannot make the directory " + directory.string() + ": " + failed.message());
}

std::vector<fs::path> write_layout(const checkpoint::TensorMap& tensors, const model::NetworkConfig& network,
                                   const ModelInfo& facts, const ExportRequest& request) {
  const auto texts = json_files(network, facts, request.layout);
  const bool is_renamed = request.layout == ExportLayout::hugging_face;
  make_directory(request.directory);
  std::vector<fs::path> files;
  for (const auto& [name, json] : texts) {
    core::write_file_atomically(request.directory / name, core::indented_json(json) + "\n");
    files.push_back(request.directory / name);
  }
  if (request.tokenizer)  // may be refused, before the weights are written
    for (fs::path& file : copy_tokenizer(*request.tokenizer, request.directory)) files.push_back(std::move(file));
  const fs::path weights = request.directory / "model.safetensors";
  const fs::path beside = request.directory / "model.safetensors.tmp";
  checkpoint::write_safetensors(beside, is_renamed ? renamed_to_transformers(tensors, network) : tensors,
                                {{"format", "pt"}}, core::Durability::process);
  fs::rename(beside, weights);
  files.push_back(weights);
  return files;
}

std::vector<fs::path> export_weights(model::Model& model, const model::NetworkConfig& network, const ModelInfo& facts,
                                     const ExportRequest& request) {
  json_files(network, facts, request.layout);  // refuses before anything changes
  model::merge_adapters(model);
  return write_layout(weights_of(model), network, facts, request);
}

}  // namespace trainctl::pretrained

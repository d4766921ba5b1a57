// A model's weights in the layout in which others load them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "model/config.h"
#include "model/model.h"
#include "pretrained/model_info.h"

namespace trainctl::pretrained {

/// safetensors: the weights alone, under our names. hugging_face: config.json too, as transformers loads it.
/// timm: config.json and names as timm loads them (`local-dir:`).
enum class ExportLayout { safetensors, hugging_face, timm };

struct ExportRequest {
  ExportLayout layout = ExportLayout::hugging_face;
  std::filesystem::path directory;                   // made, if need be; files of the same names are replaced
  std::optional<std::filesystem::path> tokenizer{};  // the file or directory whose files are copied beside
};

/// Returns what the layout can't express of the network; nothing if it can.
std::optional<std::string> obstacle_to(ExportLayout layout, const model::NetworkConfig& network,
                                       const ModelInfo& facts);

/// Makes the directory, and those that it is in, if need be.
void make_directory(const std::filesystem::path& directory);

/// Writes tensors, which have our names, in the layout; returns the files. What the layout can't express is an Error,
/// before anything is written.
std::vector<std::filesystem::path> write_layout(const checkpoint::TensorMap& tensors,
                                                const model::NetworkConfig& network, const ModelInfo& facts,
                                                const ExportRequest& request);

/// Writes them in single precision, adapters merged into their layers (the model has none afterwards). Returns the
/// files. What the layout can't express is an Error, before anything is written.
std::vector<std::filesystem::path> export_weights(model::Model& model, const model::NetworkConfig& network,
                                                  const ModelInfo& facts, const ExportRequest& request);

}  // namespace trainctl::pretrained

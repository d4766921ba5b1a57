// A run's adapters in the layout of Hugging Face's peft, apart from the weights that they adapt.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/model.h"
#include "pretrained/model_info.h"

namespace trainctl::pretrained {

struct AdapterRequest {
  std::filesystem::path directory;                   // made, if need be; files of the same names are replaced
  std::optional<std::filesystem::path> base{};       // what the run began with: model.init_from
  std::optional<std::filesystem::path> tokenizer{};  // the file or directory whose files are copied beside
};

struct ExportedAdapters {
  std::filesystem::path base;  // the directory that transformers loads before the adapters
  std::vector<std::filesystem::path> files;
};

/// Writes adapter_config.json and adapter_model.safetensors, in single precision. Weights that differ from the base's
/// go along (modules_to_save). A base that isn't a directory in Hugging Face layout is written to `base_model` within
/// the directory. Throws Error, before anything is written, if the model has no adapters or peft can't express them.
ExportedAdapters export_adapters(model::Model& model, const model::ModelConfig& config, const ModelInfo& facts,
                                 const AdapterRequest& request);

}  // namespace trainctl::pretrained

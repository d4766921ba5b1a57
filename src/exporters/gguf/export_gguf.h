// A network as one GGUF file, for llama.cpp and its kin.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "chat_template/template_files.h"
#include "exporters/gguf/gguf_file.h"
#include "model/model.h"
#include "pretrained/model_info.h"

namespace trainctl::exporters {

struct GgufRequest {
  std::filesystem::path path;
  std::string name;                                  // general.name
  GgufType type = GgufType::f16;                     // of matrices; vectors are f32
  std::optional<std::filesystem::path> tokenizer{};  // none: the file has no vocabulary
  chat_template::NamedTemplates chat_templates{};    // of training; none: the tokenizer's
};

/// Writes the file, adapters merged into their layers (the model has none afterwards). What llama.cpp can't compute is
/// an Error, before anything is written. Returns the names of matrices whose rows don't fit the type's blocks, and that
/// have the type of stored_type() instead.
std::vector<std::string> export_gguf(model::Model& model, const model::NetworkConfig& network,
                                     const pretrained::ModelInfo& facts, const GgufRequest& request);

}  // namespace trainctl::exporters

// Directories of Hugging Face's peft: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>

#include "checkpoint/safetensors.h"
#include "model/config.h"
#include "model/model.h"

namespace trainctl::pretrained {

inline constexpr const char* kAdapterConfig = "adapter_config.json";

/// Returns the adapters of a directory, and the weights that were trained beside them, by the names of `model`. Throws
/// Error for a feature that adapters here lack, and for another scale (lora_alpha / r) than that of `lora`.
checkpoint::TensorMap read_adapters(const std::filesystem::path& directory, const model::NetworkConfig& network,
                                    const model::LoraConfig& lora, model::Model& model);

/// Returns the config with the base, rank and scale of a directory that export_adapters() wrote.
model::ModelConfig with_adapters_of(model::ModelConfig config, const std::filesystem::path& directory);

}  // namespace trainctl::pretrained

// A network as llama.cpp has it: its architecture, its keys, and its tensors by their names there.
#pragma once

#include "checkpoint/safetensors.h"
#include "exporters/gguf/gguf_file.h"
#include "model/config.h"
#include "pretrained/model_info.h"

namespace trainctl::exporters {

/// Adds the network's keys and tensors to the file. Throws Error, with the key of `model`, for what llama.cpp's
/// architecture doesn't compute.
void add_network(GgufFile& file, const model::NetworkConfig& network, const pretrained::ModelInfo& facts,
                 const checkpoint::TensorMap& tensors, GgufType type);

}  // namespace trainctl::exporters

// Weights on disk, however they are laid out.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/safetensors.h"

namespace trainctl::pretrained {

struct WeightsSource {
  checkpoint::TensorMap tensors;                   // mapped, not copied, where each lies in one file
  std::filesystem::path from;                      // the file or directory that they are of
  nlohmann::json config_json = {};                 // of a directory in Hugging Face layout that has one; else null
  std::string note = {};                           // what was taken, if not all of a file, or not the newest checkpoint
  std::map<std::string, std::string> config = {};  // of a checkpoint: the run's, "model.kind" -> "vit"
  std::string data_description = {};               // of a checkpoint: the run's, dataset/description.h
};

/// Opens the weights at `path`. It is a file of safetensors or torch.save, or a directory with model.safetensors or
/// pytorch_model.bin. Instead of one file, the directory may have an index (….index.json) and the files that it names.
/// It may also be a run, checkpoints or step directory, whose newest complete checkpoint is taken.
WeightsSource open_weights(const std::filesystem::path& path);

}  // namespace trainctl::pretrained

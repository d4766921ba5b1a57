// Models laid out for servers: Triton's model repository and TorchServe's archive.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exporters/model_card.h"
#include "model/model.h"

namespace trainctl::exporters {

struct ServedModel {
  const ModelCard& card;
  std::string name;                                // that requests name: letters, digits, _ and -
  std::vector<std::filesystem::path> tokenizer{};  // files that go along
};

/// A name for servers, of an experiment's.
std::string served_name(const std::string& experiment);

/// Writes `<repository>/<name>/`: config.pbtxt, labels.txt, 1/model.onnx and the card. Returns the files, first the
/// model.
std::vector<std::filesystem::path> write_triton_repository(model::Model& model, const ServedModel& served,
                                                           const std::filesystem::path& repository);

/// Writes `<directory>/<name>.mar`: the TorchScript file, a handler for the task, labels and the handler's settings.
/// Returns the TorchScript file, `<name>.pt` in the same directory, and the archive.
std::vector<std::filesystem::path> write_torchserve_archive(model::Model& model, const ServedModel& served,
                                                            const std::filesystem::path& directory);

}  // namespace trainctl::exporters

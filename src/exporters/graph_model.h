// Exported files as models, so that what works with a model works with them: evaluation, prediction, comparison.
#pragma once

#include <filesystem>
#include <memory>

#include "exporters/model_card.h"
#include "exporters/signature.h"
#include "model/model.h"

namespace trainctl::exporters {

/// Whether a path names a file that open_graph() is for: a file that is no safetensors file.
bool is_graph_file(const std::filesystem::path& path);

/// A TorchScript or ONNX file, told apart by its first bytes, or an AOTInductor package (.pt2), with the inputs that
/// the signature names. It has no parameters of its own, and doesn't train. What can't be run is an Error with the
/// reason.
std::unique_ptr<model::Model> open_graph(const std::filesystem::path& path, const Signature& signature);

/// Reads the file and drops it: the Errors of open_graph(), before anything else is prepared. Returns what
/// its model.json says of the training data.
ListedData data_of_graph(const std::filesystem::path& path);

}  // namespace trainctl::exporters

// `model.init_from`: weights of another run, or of torchvision, by their names.
#pragma once

#include <filesystem>

#include "model/model.h"

namespace trainctl {

/// Copies every tensor of `path` (a .safetensors file, or a directory with a model.safetensors or a checkpoint) into
/// the parameter or buffer of the same name. Names that are missing or left over, and other shapes, are an Error that
/// lists them.
void load_initial_weights(Model& model, const std::filesystem::path& path);

}  // namespace trainctl

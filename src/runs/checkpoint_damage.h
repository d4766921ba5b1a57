// Whether a checkpoint is what its manifest.json says (src/checkpoint/manifest.h), found without LibTorch.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::runs {

/// Reads every byte of a step directory. Returns what is damaged in it; "" if the checkpoint is sound.
std::string checkpoint_damage(const std::filesystem::path& step_directory);

}  // namespace trainctl::runs

// Files of torch.save (.pth, .pt, .bin), read as data: no code of a file runs.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/safetensors.h"

namespace trainctl::pretrained {

/// Returns whether the file begins as those of torch.save do: a zip archive or, before PyTorch 1.6, a pickle.
bool is_torch_file(const std::filesystem::path& path);

/// Returns whether such a file is for read_torch_file(). Others are programs: TorchScript, and packages of
/// torch.export.
bool is_torch_weights(const std::filesystem::path& path);

struct TorchFile {
  checkpoint::TensorMap tensors;  // mapped, where the file aligns them
  std::string note{};             // what was taken of the file, if not all: "its 'state_dict'"
};

/// Reads the state dict of a file: the file's dict, or the dict under a usual key ('state_dict', 'model', …). A prefix
/// that wrappers give every name ('module.' of DDP) is removed. Throws Error, with the file, for Python objects,
/// damage, and tensors that exceed their storage. The file must not be truncated while its tensors live.
TorchFile read_torch_file(const std::filesystem::path& path);

}  // namespace trainctl::pretrained

// The safetensors format (https://github.com/huggingface/safetensors): 8-byte little-endian header length, JSON header, data.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "core/file.h"

namespace trainctl {

using TensorMap = std::map<std::string, at::Tensor>;

/// Streams host tensors (made contiguous) to `path`, with optional string metadata. Returns the file's checksum.
std::string write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata, Durability durability);

/// Maps the file read-only-shared into tensors that keep it alive. Headers that overlap, overrun or name unknown dtypes are
/// Errors with the file, the tensor and the offset.
TensorMap read_safetensors(const std::filesystem::path& path);

}  // namespace trainctl

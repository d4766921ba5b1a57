// The safetensors format (https://github.com/huggingface/safetensors): 8-byte little-endian header length, JSON header,
// data.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "core/file.h"

namespace trainctl {

using TensorMap = std::map<std::string, at::Tensor>;

/// Streams tensors of any layout and device, in logical (row-major) order, to `path`; largest elements first, so that
/// every tensor is aligned. Returns the file's checksum. A failure removes the file.
std::string write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata, Durability durability);

/// Maps the file into host tensors that keep it alive; what is written to them stays in this process (a tensor that the
/// file doesn't align is copied). A header that overlaps, overruns, leaves holes or names an unknown dtype is an Error
/// with the file, the tensor and the offset. The file must not be truncated while tensors of it live.
TensorMap read_safetensors(const std::filesystem::path& path);

}  // namespace trainctl

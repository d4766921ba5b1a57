// The safetensors format (https://github.com/huggingface/safetensors): 8-byte little-endian header length, JSON header,
// data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace trainctl::checkpoint {

using TensorMap = std::map<std::string, at::Tensor>;

/// Streams tensors of any layout and device, in logical (row-major) order, to `path`; largest elements first, so that
/// every tensor is aligned. Returns the file's checksum. A failure removes the file.
std::string write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata, core::Durability durability);

/// Maps the file into host tensors, which keep the mapping alive. Writes to the tensors stay in this process. A tensor
/// that the file doesn't align is copied. Throws Error with the file and the tensor for ranges that overlap, overrun
/// the file or leave holes, and for unknown dtypes. An Error about a range also names the offset. The file must not be
/// truncated while its tensors live.
TensorMap read_safetensors(const std::filesystem::path& path);

/// Returns the dtype's name in headers ("BF16"), or "" if the format has none.
std::string_view safetensors_name(at::ScalarType dtype);
/// Returns the dtype of a name.
std::optional<at::ScalarType> safetensors_dtype(std::string_view name);

/// A tensor in a file.
struct StoredTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // of its data, from the file's beginning
  std::uint64_t size = 0;
};

/// Puts tensors in the order in which they are written, and sets where. Returns what comes before the first of them.
/// Errors name `path`, which isn't touched.
std::string lay_out_safetensors(std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata,
                                const std::filesystem::path& path);

/// Returns the tensors that the file's header lists. Throws Error for a header that read_safetensors() refuses.
std::vector<StoredTensor> list_safetensors(const std::filesystem::path& path);

}  // namespace trainctl::checkpoint

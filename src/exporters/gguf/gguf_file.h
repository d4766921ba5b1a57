// Files of GGUF, version 3: metadata and tensors, as llama.cpp and others of ggml read them.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::exporters {

/// How the values of a tensor are stored. q8_0, q5_0, q4_0: blocks of 32 values with a common scale. q4_k: blocks of
/// 256 values with a scale and an offset for each 32.
enum class GgufType { f32, f16, q8_0, q5_0, q4_0, q4_k };

/// Returns how a tensor is stored if `wanted` is asked for. Vectors are f32. Rows that blocks of 256 don't divide are
/// q5_0 in place of q4_k, as in llama.cpp. Rows that blocks of 32 don't divide are f16.
GgufType stored_type(const at::Tensor& tensor, GgufType wanted);
/// Returns the bytes of a tensor, on the CPU, with its rows in order. Throws core::Error for values that the type would
/// turn into infinity.
std::string gguf_bytes(const at::Tensor& tensor, GgufType type);

using GgufValue = std::variant<bool, std::uint32_t, float, std::string, std::vector<std::string>, std::vector<float>,
                               std::vector<std::int32_t>>;

class GgufFile {
 public:
  void set(std::string key, GgufValue value) { metadata_.emplace_back(std::move(key), std::move(value)); }
  void add(std::string name, at::Tensor tensor, GgufType type) {
    tensors_.push_back({std::move(name), std::move(tensor), type});
  }
  /// Returns the names of matrices that are stored in another type.
  std::vector<std::string> stored_otherwise(GgufType type) const;
  /// Writes the file. It replaces an older one only when it is complete.
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    std::string name;
    at::Tensor tensor;
    GgufType type;
  };
  void write_tensors(const std::filesystem::path& path, const std::string& head) const;

  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::vector<Entry> tensors_;
};

}  // namespace trainctl::exporters

// References computed live by stock PyTorch: a script of tests/reference writes what a test compares with.
#pragma once

#include <ATen/ops/from_blob.h>
#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/python.h"

namespace trainctl::testing {

using TensorMap = std::map<std::string, at::Tensor>;

/// A safetensors file that a script of ours wrote; apart from checkpoint/, so that the folders are tested on their own.
inline TensorMap read_reference(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::uint64_t header_size = 0;
  REQUIRE(bytes.size() >= sizeof header_size);
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  char* const data = bytes.data() + sizeof header_size + header_size;
  const std::map<std::string, at::ScalarType> dtypes{
      {"F32", at::kFloat}, {"F64", at::kDouble}, {"I64", at::kLong}, {"U8", at::kByte}};
  TensorMap tensors;
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const std::size_t offset = entry.at("data_offsets").at(0).get<std::size_t>();
    tensors[name] = at::from_blob(data + offset, shape, dtypes.at(entry.at("dtype").get<std::string>())).clone();
  }
  return tensors;
}

/// Runs `tests/reference/<script> <part> <file>`, and returns the tensors that the script writes to the file.
inline TensorMap reference(const std::string& script, const std::string& part) {
  const TemporaryDirectory directory;
  const std::filesystem::path output = directory / "reference.safetensors";
  run_reference(script, {part, output.string()});
  return read_reference(output);
}

}  // namespace trainctl::testing

// References computed live by stock PyTorch: a script of tests/reference writes what a test compares with.
#pragma once

#include <ATen/ops/from_blob.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

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

/// Runs `tests/reference/<script> <part> <file>` and reads the file. Nothing, and a loud warning, where PyTorch isn't
/// installed for TRAINCTL_PYTHON (exit code 77); any other failure fails the test.
inline std::optional<TensorMap> reference(const std::string& script, const std::string& part) {
  namespace fs = std::filesystem;
  const fs::path output =
      fs::temp_directory_path() / ("trainctl-" + part + "-" + std::to_string(::getpid()) + ".safetensors");
  const std::string python = TRAINCTL_PYTHON;
  const std::string script_path = TRAINCTL_SOURCE_DIR "/tests/reference/" + script;
  const std::string command = "'" + python + "' '" + script_path + "' " + part + " '" + output.string() + "'";
  const int status = python.empty() ? 77 << 8 : std::system(command.c_str());
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)) {
    WARN("SKIPPED: no stock PyTorch to compare with; scripts/setup.sh installs it into .deps/python");
    return std::nullopt;
  }
  REQUIRE(status == 0);
  TensorMap tensors = read_reference(output);
  fs::remove(output);
  return tensors;
}

}  // namespace trainctl::testing

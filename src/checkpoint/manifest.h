// What a checkpoint says of its files: manifest.json, the marker of completeness, and the same of one rank's part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/chunked_file.h"
#include "checkpoint/tensor_index.h"
#include "checkpoint/values.h"

namespace trainctl::checkpoint {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kStateFile = "state.safetensors";
inline constexpr const char* kValuesFile = "state.json";
inline constexpr const char* kManifestFile = "manifest.json";

struct Manifest {
  std::int64_t step = 0;
  std::map<std::string, FileSums> files;
  TensorIndex tensors;  // whose pieces lie in those files
};

void write_manifest(const std::filesystem::path& directory, const Manifest& manifest);
/// Throws where it is missing or not exactly as it was written. One of the first version has no tensors: the headers of
/// its two safetensors files list them.
Manifest read_manifest(const std::filesystem::path& directory);
/// The manifest, once every file has been found to be as it says.
Manifest verify(const std::filesystem::path& directory);

/// What one rank wrote, and when all of it is there.
struct Part {
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::int64_t attempt = 0;   // parts of different starts of a job don't belong together
  std::int64_t elements = 0;  // of all parts together, each counted once
  Manifest manifest;          // of this part's files
  Values values;
};

/// "part_00001_of_00004".
std::string part_name(std::int64_t index, std::int64_t count);

/// Writes the part into `<name>.json`, whole or not at all.
void write_part(const std::filesystem::path& directory, const Part& part, core::Durability durability);
Part read_part(const std::filesystem::path& path);

}  // namespace trainctl::checkpoint

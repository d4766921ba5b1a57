#include "dataset/shards/sampled_hash.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockBytes = 4 << 10;
constexpr std::size_t kBlocksOfSet = 1024;
constexpr std::size_t kMostBlocks = 64;  // of a file
constexpr std::uint64_t kMostIndexBytes = 256 << 20;

/// Returns the checksums in the directory's index.json, by file name.
std::map<std::string, std::string> read_index(const fs::path& directory) {
  std::map<std::string, std::string> checksums;
  const fs::path file = directory / "index.json";
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown) || fs::file_size(file, unknown) > kMostIndexBytes) return checksums;
  const auto index = core::parse_json_or_discard(core::read_file(file));
  if (!index.is_object() || !index.contains("shards") || !index["shards"].is_array()) return checksums;
  const auto text = [](const nlohmann::json& shard, const char* key) {
    return shard.is_object() && shard.contains(key) && shard[key].is_string() ? shard[key].get<std::string>() : "";
  };
  for (const nlohmann::json& shard : index["shards"]) checksums[text(shard, "file")] = text(shard, "checksum");
  return checksums;
}

}  // namespace

SampledHash::SampledHash(std::span<const fs::path> files)
    : blocks_(std::clamp<std::size_t>(kBlocksOfSet / std::max<std::size_t>(files.size(), 1), 2, kMostBlocks)) {
  for (const fs::path& file : files)
    if (const auto [directory, is_new] = noted_.try_emplace(file.parent_path()); is_new)
      directory->second = read_index(directory->first);
}

std::string SampledHash::of(const fs::path& file, std::span<const std::byte> content) const {
  core::Checksum sum;
  if (content.size() <= kWholeBytes) {
    sum.update(content);
  } else {
    const std::size_t last = content.size() - kBlockBytes;
    const std::size_t gaps = blocks_ - 1;
    for (std::size_t i = 0; i <= gaps; ++i)
      sum.update(content.subspan(last / gaps * i + last % gaps * i / gaps, kBlockBytes));
  }
  std::string text = std::to_string(content.size()) + " " + sum.digest();
  if (const auto directory = noted_.find(file.parent_path()); directory != noted_.end())
    if (const auto noted = directory->second.find(file.filename().string()); noted != directory->second.end())
      text += " " + noted->second;
  return text;
}

}  // namespace trainctl::dataset

#include "runs/checkpoint_damage.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mapped_file.h"

namespace trainctl::runs {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifest = std::uint64_t{1} << 30;

core::Error damaged(const fs::path& path, const std::string& what) {
  return core::Error(path.string() + " is damaged: " + what);
}

/// Returns the manifest, whose text includes its own checksum.
nlohmann::json read_manifest(const fs::path& path) {
  nlohmann::json manifest = core::parse_json_or_discard(core::read_file(path, kMaxManifest));
  if (!manifest.is_object() || !manifest.contains("files")) throw damaged(path, "not a checkpoint's manifest");
  nlohmann::json text = manifest;
  text.erase("checksum");
  if (manifest.value("checksum", "") != core::checksum(text.dump())) throw damaged(path, "its checksum differs");
  return manifest;
}

/// Throws unless the file has the size and the checksums of the manifest: one of each chunk, or of the whole file.
void check_file(const fs::path& path, const nlohmann::json& file) {
  const core::MappedFile mapped(path);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (bytes.size() != file.at("size").get<std::uint64_t>())
    throw damaged(path, "it has " + std::to_string(bytes.size()) + " bytes instead of " + file.at("size").dump());
  const bool has_chunks = file.contains("checksums");
  const nlohmann::json sums = has_chunks ? file.at("checksums") : nlohmann::json::array({file.at("checksum")});
  const auto chunk = has_chunks ? std::max<std::size_t>(1, file.at("chunk").get<std::size_t>()) : bytes.size();
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += chunk, ++number) {
    const std::string sum = core::checksum(bytes.subspan(begin, std::min(chunk, bytes.size() - begin)));
    core::check_mapped_files();
    if (number >= sums.size() || sums[number] != sum)
      throw damaged(path, "the checksum of the bytes from " + std::to_string(begin) + " on differs");
  }
}

}  // namespace

std::string checkpoint_damage(const fs::path& step_directory) {
  const fs::path path = step_directory / "manifest.json";
  try {
    const nlohmann::json manifest = read_manifest(path);
    for (const auto& [name, file] : manifest.at("files").items()) check_file(step_directory / name, file);
  } catch (const nlohmann::json::exception& error) {
    return path.string() + " is damaged: " + core::as_error(error).what();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trainctl::runs

#include "checkpoint/manifest.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/chunked_file.h"
#include "checkpoint/safetensors.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFormat = "trainctl checkpoint";
constexpr const char* kPartFormat = "trainctl checkpoint part";
constexpr std::int64_t kVersion = 3;  // 2 had no runs
constexpr std::int64_t kOldestPart = 2;
constexpr std::uint64_t kMaxManifest = std::uint64_t{1} << 30;

/// Returns the document's text, which includes its own checksum.
std::string text_of(Json document) {
  document.erase("checksum");
  document["checksum"] = core::checksum(document.dump());
  return document.dump(1) + "\n";
}

Json json_of(const FileSums& file) {
  return {{"size", file.size}, {"chunk", file.chunk}, {"checksums", file.sums}};
}

Json json_of(const TensorRecord& tensor) {
  Json pieces = Json::array();
  for (const Piece& piece : tensor.pieces) {
    pieces.push_back({{"file", piece.file}, {"byte", piece.byte}, {"offset", piece.offset}, {"count", piece.count}});
    if (piece.runs.length > 0)
      pieces.back()["runs"] = {
          {"length", piece.runs.length}, {"distance", piece.runs.distance}, {"first", piece.runs.first}};
  }
  Json result = {{"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
  if (!tensor.order.empty()) result["order"] = tensor.order;
  return result;
}

Json json_of(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, file] : manifest.files) files[name] = json_of(file);
  Json tensors = Json::object();
  for (const auto& [name, tensor] : manifest.tensors) tensors[name] = json_of(tensor);
  return {{"version", kVersion}, {"step", manifest.step}, {"files", files}, {"tensors", tensors}};
}

std::uint64_t size_of(const Json& read) {
  return static_cast<std::uint64_t>(count_in(read));
}

Dims dims_of(const Json& read) {
  Dims dims;
  for (const Json& dim : read) dims.push_back(count_in(dim));
  return dims;
}

/// Reads a file's checksums. A file of version 1 has one checksum for the whole file.
FileSums file_of(const Json& read) {
  FileSums file{.size = size_of(read.at("size")), .chunk = 0, .sums = {}};
  if (read.contains("checksum")) {
    file.chunk = std::max<std::uint64_t>(file.size, 1);
    if (file.size > 0) file.sums = {read.at("checksum").get<std::string>()};
  } else {
    file.chunk = std::min(size_of(read.at("chunk")), std::max<std::uint64_t>(file.size, 1));
    file.sums = read.at("checksums").get<std::vector<std::string>>();
  }
  if (file.chunk == 0 || file.sums.size() != num_chunks(file.size, file.chunk))
    throw core::Error("a file's checksums don't cover the file");
  return file;
}

/// Returns the number of elements; throws if the size in bytes overflows.
std::int64_t checked_numel(const TensorRecord& tensor) {
  std::vector<std::int64_t> factors = tensor.shape;
  factors.push_back(static_cast<std::int64_t>(c10::elementSize(tensor.dtype)));
  const std::optional<std::int64_t> bytes = core::checked_product(factors);
  if (!bytes) throw core::Error("a tensor's shape is negative or too large");
  return *bytes / factors.back();
}

bool is_permutation(const Dims& order, std::size_t num_dims) {
  std::vector<char> seen(num_dims);
  for (const std::int64_t dim : order) {
    if (dim < 0 || dim >= static_cast<std::int64_t>(num_dims) || seen[static_cast<std::size_t>(dim)]++) return false;
  }
  return order.size() == num_dims;
}

/// Returns the runs of a piece of a tensor of `numel` elements, which the piece is within.
runtime::ElementRuns runs_of(const Json& piece, std::int64_t numel) {
  if (!piece.contains("runs")) return {};
  const Json& read = piece.at("runs");
  const runtime::ElementRuns runs{.length = count_in(read.at("length")),
                                  .distance = count_in(read.at("distance")),
                                  .first = count_in(read.at("first"))};
  if (runs.length < 1 || runs.distance < runs.length || runs.first > runs.distance - runs.length ||
      runs.distance > numel || numel % runs.distance != 0)
    throw core::Error("a piece's runs don't fit its tensor");
  return runs;
}

TensorRecord tensor_of(const Json& read, const std::map<std::string, FileSums>& files) {
  const auto dtype = safetensors_dtype(read.at("dtype").get<std::string>());
  if (!dtype) throw core::Error("unknown dtype " + read.at("dtype").dump());
  TensorRecord tensor{.dtype = *dtype, .shape = dims_of(read.at("shape")), .order = {}, .pieces = {}};
  if (read.contains("order")) tensor.order = dims_of(read.at("order"));
  if (!tensor.order.empty() && !is_permutation(tensor.order, tensor.shape.size()))
    throw core::Error("a tensor has no order");
  const std::int64_t numel = checked_numel(tensor);
  for (const Json& one : read.at("pieces")) {
    Piece piece{.file = one.at("file"),
                .byte = size_of(one.at("byte")),
                .offset = count_in(one.at("offset")),
                .count = count_in(one.at("count")),
                .runs = runs_of(one, numel)};
    const std::int64_t elements = piece.runs.length == 0 ? numel : numel / piece.runs.distance * piece.runs.length;
    const auto file = files.find(piece.file);
    if (file == files.end() || piece.count > elements || piece.offset > elements - piece.count)
      throw core::Error("a piece overruns its tensor or its file");
    const std::uint64_t size = static_cast<std::uint64_t>(piece.count) * c10::elementSize(tensor.dtype);
    if (piece.byte > file->second.size || size > file->second.size - piece.byte)
      throw core::Error("a piece overruns its tensor or its file");
    tensor.pieces.push_back(std::move(piece));
  }
  return tensor;
}

Manifest manifest_of(const Json& read) {
  Manifest manifest{.step = count_in(read.at("step")), .files = {}, .tensors = {}};
  if (manifest.step > kMaxStep)
    throw core::Error("step " + std::to_string(manifest.step) + " is too large; expected at most " +
                      std::to_string(kMaxStep));
  for (const auto& [name, file] : read.at("files").items()) {
    if (fs::path(name).filename() != name) throw core::Error("file '" + name + "' is not in the manifest's directory");
    manifest.files[name] = file_of(file);
  }
  if (read.contains("tensors"))
    for (const auto& [name, tensor] : read.at("tensors").items())
      manifest.tensors[name] = tensor_of(tensor, manifest.files);
  return manifest;
}

/// Reads a document of this format. Throws if the version is unknown or the text differs from its checksum.
Json read_document(const fs::path& path, const char* format, std::int64_t oldest) {
  const std::string text = core::read_file(path, kMaxManifest);
  const Json read = core::parse_json_or_discard(text);
  if (!read.is_object() || read.value("format", Json()) != format)
    throw core::Error(path.string() + " is damaged: not a checkpoint's manifest; expected format '" + format + "'");
  const Json version = read.value("version", Json());
  if (!version.is_number_integer() || version < oldest || version > kVersion)
    throw core::Error(path.string() + " has format version " + version.dump() + "; this program reads up to " +
                      std::to_string(kVersion));
  if (text_of(read) != text) throw core::Error(path.string() + " is damaged: its checksum differs");
  return read;
}

template <class Read>
auto damaged_otherwise(const fs::path& path, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw core::Error(path.string() + " is damaged: " + core::as_error(error).what());
  } catch (const core::Error& error) {
    throw core::Error(path.string() + " is damaged: " + error.what());
  }
}

/// Lists the tensors of a version-1 checkpoint from the headers of its files.
void list_tensors(const fs::path& directory, Manifest& manifest) {
  for (const char* file : {kModelFile, kStateFile})
    for (StoredTensor& stored : list_safetensors(directory / file)) {
      const std::string name = file == kModelFile ? "model." + stored.name : stored.name;
      const Piece all{.file = file, .byte = stored.begin, .offset = 0, .count = numel_of(stored.shape)};
      manifest.tensors[name] = {.dtype = stored.dtype, .shape = std::move(stored.shape), .order = {}, .pieces = {all}};
    }
}

}  // namespace

void write_manifest(const fs::path& directory, const Manifest& manifest) {
  Json document = json_of(manifest);
  document["format"] = kFormat;
  core::FileWriter writer(directory / kManifestFile);
  writer.write(text_of(std::move(document)));
  writer.close(core::Durability::disk);
}

Manifest read_manifest(const fs::path& directory) {
  const fs::path path = directory / kManifestFile;
  if (!fs::exists(path))
    throw core::Error(directory.string() + " has no " + kManifestFile + ", so it was never completed");
  const Json read = read_document(path, kFormat, /*oldest=*/1);
  Manifest manifest = damaged_otherwise(path, [&] { return manifest_of(read); });
  if (!manifest.files.contains(kValuesFile)) throw core::Error(path.string() + " lists no " + kValuesFile);
  for (const auto& [name, sums] : manifest.files) {
    std::error_code error;
    const std::uint64_t size = fs::file_size(directory / name, error);
    if (error) throw core::Error("cannot read " + (directory / name).string() + ": " + error.message());
    if (size != sums.size)
      throw core::Error((directory / name).string() + " is damaged: it has " + std::to_string(size) +
                        " bytes instead of " + std::to_string(sums.size));
  }
  if (read.at("version") == 1) list_tensors(directory, manifest);
  damaged_otherwise(path, [&] {
    for (const auto& [name, tensor] : manifest.tensors)
      if (covered_elements(tensor) < numel_of(tensor.shape)) pieces_within(name, tensor, 0, numel_of(tensor.shape));
    return true;
  });
  return manifest;
}

Manifest verify(const fs::path& directory) {
  Manifest manifest = read_manifest(directory);
  std::vector<FileRanges> files;
  for (const auto& [name, sums] : manifest.files) files.push_back({directory / name, sums, {}});
  verify_chunked(files);
  return manifest;
}

std::string part_name(std::int64_t index, std::int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "part_%05lld_of_%05lld", static_cast<long long>(index + 1),
                static_cast<long long>(count));
  return text;
}

void write_part(const fs::path& directory, const Part& part, core::Durability durability) {
  Json document = json_of(part.manifest);
  document["format"] = kPartFormat;
  document["part"] = part.index;
  document["parts"] = part.count;
  document["attempt"] = part.attempt;
  document["elements"] = part.elements;
  document["state"] = Json::parse(text_of_values(part.values));
  core::write_file_atomically(directory / (part_name(part.index, part.count) + ".json"), text_of(std::move(document)),
                              durability);
}

Part read_part(const fs::path& path) {
  const Json read = read_document(path, kPartFormat, kOldestPart);
  return damaged_otherwise(path, [&] {
    Part part{.index = count_in(read.at("part")),
              .count = count_in(read.at("parts")),
              .attempt = integer_in(read.at("attempt")),
              .elements = count_in(read.at("elements")),
              .manifest = manifest_of(read),
              .values = values_of_text(read.at("state").dump())};
    if (part.index >= part.count)
      throw core::Error("part " + std::to_string(part.index) + " is out of range; expected a number below " +
                        std::to_string(part.count));
    return part;
  });
}

}  // namespace trainctl::checkpoint

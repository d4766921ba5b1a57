#include "checkpoint/step_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "trainctl checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::uint64_t kMaxManifest = 1 << 20;

/// With a sum of itself.
std::string text_of(json manifest) {
  manifest.erase("checksum");
  manifest["checksum"] = checksum(manifest.dump());
  return manifest.dump(1) + "\n";
}

template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw system_error("rename into place", to.string());
}

}  // namespace

void write_manifest(const fs::path& directory, const Manifest& manifest) {
  json files = json::object();
  for (const auto& [name, file] : manifest.files) files[name] = {{"size", file.size}, {"checksum", file.checksum}};
  FileWriter writer(directory / kManifestFile);
  writer.write(text_of({{"format", kFormat}, {"version", kVersion}, {"step", manifest.step}, {"files", files}}));
  writer.close(Durability::disk);
}

Manifest read_manifest(const fs::path& directory) {
  const fs::path path = directory / kManifestFile;
  if (!fs::exists(path)) throw Error(directory.string() + " has no " + kManifestFile + ", so it was never completed");
  const std::string text = read_file(path, kMaxManifest);
  const json read = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || read.value("format", json()) != kFormat)
    throw Error(path.string() + " is damaged: it is not a checkpoint's manifest");
  if (read.value("version", json()) != kVersion)
    throw Error(path.string() + " has format version " + read.value("version", json()).dump() +
                "; this program reads " + std::to_string(kVersion));
  if (text_of(read) != text) throw Error(path.string() + " is damaged: its checksum differs");
  try {
    Manifest manifest{.step = read.at("step"), .files = {}};
    for (const auto& [name, file] : read.at("files").items())
      manifest.files[name] = {.size = file.at("size"), .checksum = file.at("checksum")};
    return manifest;
  } catch (const json::exception& error) {
    throw Error(path.string() + " is damaged: " + error.what());
  }
}

Manifest verify(const fs::path& directory) {
  const Manifest manifest = read_manifest(directory);
  for (const char* name : {kModelFile, kStateFile, kValuesFile})
    if (!manifest.files.contains(name)) throw Error((directory / kManifestFile).string() + " lists no " + name);
  for (const auto& [name, file] : manifest.files) {
    const fs::path path = directory / name;
    std::error_code error;
    const std::uint64_t size = fs::file_size(path, error);
    if (error) throw Error("cannot read " + path.string() + ": " + error.message());
    if (size != file.size)
      throw Error(path.string() + " is damaged: it has " + std::to_string(size) + " bytes instead of " +
                  std::to_string(file.size));
    if (const std::string sum = checksum_file(path); sum != file.checksum)
      throw Error(path.string() + " is damaged: its checksum is " + sum + " instead of " + file.checksum);
  }
  return manifest;
}

std::string step_name(std::int64_t step) {
  char text[40];
  std::snprintf(text, sizeof text, "step_%08lld", static_cast<long long>(step));
  return text;
}

std::optional<std::int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const auto step = number_of<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
  return step && step_name(*step) == name ? step : std::nullopt;
}

std::vector<std::int64_t> steps_newest_first(const fs::path& checkpoints) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error))
    if (const auto step = step_of_name(entry.path().filename().string()))
      if (!entry.is_symlink(error) && fs::exists(entry.path() / kManifestFile, error)) steps.push_back(*step);
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error("cannot list " + checkpoints.string() + ": " + error.message());
  std::sort(steps.rbegin(), steps.rend());
  if (const auto latest = linked_step(checkpoints / kLatest))
    std::stable_partition(steps.begin(), steps.end(), [&](std::int64_t step) { return step <= *latest; });
  return steps;
}

std::optional<std::int64_t> linked_step(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::nullopt : step_of_name(target.filename().string());
}

void point_at(const fs::path& link, std::int64_t step) {
  const fs::path made = beside(link);
  ::unlink(made.c_str());
  if (::symlink(step_name(step).c_str(), made.c_str()) != 0) throw system_error("create link", made.string());
  rename_or_throw(made, link);
}

fs::path beside(const fs::path& path) {
  return fs::path(path.string() + std::string(kTemporary) + std::to_string(::getpid()));
}

void remove_stale(const fs::path& checkpoints) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.rfind(kTemporary);
    if (at == std::string::npos) continue;
    const auto writer = number_of<pid_t>(std::string_view(name).substr(at + kTemporary.size()));
    // Our own id is that of an earlier process too: ids come again, in containers soon.
    const bool alive = writer && *writer != ::getpid() && (::kill(*writer, 0) == 0 || errno == EPERM);
    if (writer && *writer > 0 && !alive) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
}

void replace_directory(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) throw system_error("rename into place", to.string());
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that cannot exchange: between the two renames the step is missing, an older one is not.
    remove_directory(to);
    rename_or_throw(from, to);
    return;
  }
  std::error_code ignored;
  fs::remove_all(from, ignored);
}

void remove_directory(const fs::path& directory) {
  const fs::path out_of_sight = beside(directory.string() + ".old");
  rename_or_throw(directory, out_of_sight);
  std::error_code ignored;
  fs::remove_all(out_of_sight, ignored);
}

}  // namespace trainctl

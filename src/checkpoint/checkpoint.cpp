#include "checkpoint/checkpoint.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "checkpoint/manifest.h"
#include "checkpoint/parts.h"
#include "checkpoint/step_directory.h"
#include "config/flatten.h"
#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

std::optional<Found> complete(const fs::path& step_directory, std::vector<std::string>* passed_over) {
  try {
    return Found{.path = step_directory,
                 .step = read_manifest(step_directory).step,
                 .is_withdrawn = is_withdrawn(step_directory)};
  } catch (const core::Error& error) {
    if (passed_over != nullptr) passed_over->push_back(error.what());
    return std::nullopt;
  }
}

constexpr std::int64_t kAtOnce = std::int64_t{64} << 20;  // bytes

/// Elements in row-major order: as they come, or, where the tensor lies otherwise, once it is whole.
void copy_rows(const Checkpoint& checkpoint, const std::string& name, core::FileWriter& writer) {
  const TensorRecord& record = checkpoint.tensors().at(name);
  const std::int64_t numel = numel_of(record.shape);
  const auto element = static_cast<std::int64_t>(c10::elementSize(record.dtype));
  const std::int64_t at_once = record.order.empty() ? std::max<std::int64_t>(1, kAtOnce / element) : numel;
  const at::Tensor buffer = at::empty({std::min(numel, at_once)}, at::TensorOptions(record.dtype).device(at::kCPU));
  auto* const bytes = static_cast<std::byte*>(buffer.mutable_data_ptr());
  for (std::int64_t offset = 0; offset < numel; offset += at_once) {
    const std::int64_t count = std::min(at_once, numel - offset);
    checkpoint.read({{name, offset, count, bytes}});
    if (record.order.empty()) {
      writer.write(std::span<const std::byte>(bytes, static_cast<std::size_t>(count * element)));
      continue;
    }
    const at::Tensor rows = at::as_strided(buffer, record.shape, strides_of(record.shape, record.order)).contiguous();
    writer.write(std::span(static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()));
  }
}

}  // namespace

std::vector<Found> find_complete(const fs::path& directory, std::vector<std::string>* passed_over) {
  const fs::path itself = directory.has_filename() ? directory : directory.parent_path();
  std::vector<Found> found;
  const auto add = [&](const fs::path& step_directory) {
    if (auto one = complete(step_directory, passed_over)) found.push_back(*std::move(one));
  };
  const fs::path inside = itself / "checkpoints";
  const bool is_run = fs::is_directory(inside);  // whatever its name is
  if (!is_run &&
      (fs::exists(itself / kManifestFile) || step_of_name(itself.filename().string()) || linked_step(itself))) {
    add(itself);
    return found;
  }
  const fs::path& checkpoints = is_run ? inside : itself;
  for (const std::int64_t step : steps_newest_first(checkpoints)) add(checkpoints / step_name(step));
  return found;
}

void go_on_from(const fs::path& checkpoints, std::int64_t step, std::int64_t best) {
  const auto is_complete = [&](std::int64_t one) { return fs::exists(checkpoints / step_name(one) / kManifestFile); };
  withdraw_beyond(checkpoints, step);
  fs::remove(checkpoints / step_name(step) / kWithdrawn);
  if (is_complete(step) && linked_step(checkpoints / kLatest) != step) update_symlink(checkpoints / kLatest, step);
  const std::optional<std::int64_t> linked = linked_step(checkpoints / kBest);
  if (best > 0 && linked && *linked <= step) return;
  if (best > 0 && best <= step && is_complete(best))
    update_symlink(checkpoints / kBest, best);
  else
    fs::remove(checkpoints / kBest);
}

std::optional<Found> find_newest(const fs::path& directory, std::vector<std::string>* passed_over) {
  for (Found& found : find_complete(directory, passed_over)) {
    try {
      verify(found.path);
      const Checkpoint is_readable(found.path);  // complete files may still hold invalid values
      return std::move(found);
    } catch (const core::Error& error) {
      if (passed_over != nullptr) passed_over->push_back(error.what());
    }
  }
  return std::nullopt;
}

Checkpoint::Checkpoint(const fs::path& step_directory) : name_(step_directory.string()) {
  try {
    Manifest manifest = read_manifest(step_directory);
    const FileSums& sums = manifest.files.at(kValuesFile);
    verify_chunked({{step_directory / kValuesFile, sums, {}}});
    values_ = read_values(step_directory / kValuesFile);
    if (values_.info.step != manifest.step)
      throw core::Error((step_directory / kValuesFile).string() + " is of step " + std::to_string(values_.info.step) +
                        ", but the manifest is of step " + std::to_string(manifest.step));
    tensors_ = std::move(manifest.tensors);
    for (auto& [name, file] : manifest.files) files_[name] = {step_directory / name, std::move(file)};
  } catch (core::Error& error) {
    throw error.during("loading checkpoint " + name_);
  }
}

Checkpoint::Checkpoint(const std::vector<fs::path>& parts) : name_(parts.front().parent_path().string()) {
  try {
    std::vector<Part> read;
    for (const fs::path& path : parts) {
      read.push_back(read_part(path));
      for (const auto& [name, file] : read.back().manifest.files) files_[name] = {path.parent_path() / name, file};
    }
    Contents merged = merge_parts(read);
    values_ = std::move(merged.values);
    tensors_ = std::move(merged.manifest.tensors);
  } catch (core::Error& error) {
    throw error.during("loading checkpoint " + name_);
  }
}

void Checkpoint::read(const std::vector<Range>& ranges) const {
  std::map<std::string, FileRanges> files;
  for (const Range& range : ranges) {
    const TensorRecord& record = tensors_.at(range.tensor);
    const auto element = static_cast<std::uint64_t>(c10::elementSize(record.dtype));
    for (const Piece& piece : pieces_within(range.tensor, record, range.offset, range.count, range.runs)) {
      const File& file = files_.at(piece.file);
      files.try_emplace(piece.file, FileRanges{file.path, file.sums, {}})
          .first->second.ranges.push_back(
              {.begin = piece.byte,
               .size = static_cast<std::uint64_t>(piece.count) * element,
               .into = range.into + static_cast<std::uint64_t>(piece.offset - range.offset) * element});
    }
  }
  std::vector<FileRanges> wanted;
  for (auto& [name, file] : files) wanted.push_back(std::move(file));
  try {
    read_chunked(wanted);
  } catch (core::Error& error) {
    throw error.during("loading checkpoint " + name_);
  }
}

TensorMap Checkpoint::read_whole(const std::string& prefix) const {
  TensorMap flat;
  std::vector<Range> ranges;
  for (const auto& [name, record] : tensors_) {
    if (!name.starts_with(prefix)) continue;
    const at::Tensor into = at::empty({numel_of(record.shape)}, at::TensorOptions(record.dtype).device(at::kCPU));
    ranges.push_back({name, 0, into.numel(), static_cast<std::byte*>(into.mutable_data_ptr())});
    flat.emplace(name, into);
  }
  read(ranges);
  TensorMap tensors;
  for (const auto& [name, tensor] : flat) {
    const TensorRecord& record = tensors_.at(name);
    tensors.emplace(name.substr(prefix.size()),
                    at::as_strided(tensor, record.shape, strides_of(record.shape, record.order)).contiguous());
  }
  return tensors;
}

std::vector<std::string> changed_keys(const CheckpointInfo& info, const std::map<std::string, std::string>& now) {
  const auto shown = [](const std::string& value) { return value.empty() ? "(not set)" : value; };
  // A section that is set or removed is listed by its keys: as a whole it is null on one side, and no key on the other.
  const auto is_listed_by_keys = [&](const std::string& section, const std::map<std::string, std::string>& keys) {
    const auto inside = keys.lower_bound(section + ".");
    return inside != keys.end() && inside->first.starts_with(section + ".");
  };
  std::vector<std::string> lines;
  for (const config::Difference& change : config::diff(info.config, now)) {
    const bool is_set = change.was == "null" && is_listed_by_keys(change.path, now);
    const bool is_removed = change.now == "null" && is_listed_by_keys(change.path, info.config);
    if (!is_set && !is_removed) lines.push_back(change.path + ": " + shown(change.was) + " -> " + shown(change.now));
  }
  return lines;
}

void consolidate(const Checkpoint& checkpoint, const std::filesystem::path& path, Consolidated what) {
  const std::string prefix = what == Consolidated::model ? "model." : "";
  std::vector<StoredTensor> order;
  for (const auto& [name, record] : checkpoint.tensors())
    if (name.starts_with(prefix))
      order.push_back({.name = name.substr(prefix.size()),
                       .dtype = record.dtype,
                       .shape = record.shape,
                       .size = static_cast<std::uint64_t>(numel_of(record.shape)) * c10::elementSize(record.dtype)});
  const std::string head = lay_out_safetensors(order, {{"format", "pt"}}, path);
  const std::filesystem::path beside = path.string() + ".tmp";
  try {
    core::FileWriter writer(beside);
    writer.write(head);
    for (const StoredTensor& stored : order) copy_rows(checkpoint, prefix + stored.name, writer);
    writer.close(core::Durability::process);
    std::filesystem::rename(beside, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

}  // namespace trainctl::checkpoint

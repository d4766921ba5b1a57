#include <chrono>
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/step_directory.h"
#include "checkpoint/values.h"
#include "core/error.h"
#include "core/file.h"

namespace trainctl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "model.";

/// The model's tensors under their own names, so that others load the file as it is; and everything else.
struct Split {
  TensorMap model;
  TensorMap state;
};

Split split(const Snapshot& snapshot) {
  Split parts;
  for (const auto& [name, tensor] : snapshot.tensors) {
    if (name.starts_with(kModelPrefix))
      parts.model.emplace(name.substr(kModelPrefix.size()), tensor);
    else
      parts.state.emplace(name, tensor);
  }
  return parts;
}

std::string write_text(const fs::path& path, const std::string& text) {
  FileWriter writer(path);
  writer.write(text);
  writer.close(Durability::disk);
  return checksum(text);
}

void write_files(const fs::path& directory, const Snapshot& snapshot, const CheckpointInfo& info) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  const Split parts = split(snapshot);
  Manifest manifest{.step = info.step, .files = {}};
  const auto listed = [&](const char* name, std::string sum) {
    manifest.files[name] = {.size = fs::file_size(directory / name), .checksum = std::move(sum)};
  };
  listed(kModelFile, write_safetensors(directory / kModelFile, parts.model, metadata, Durability::disk));
  listed(kStateFile, write_safetensors(directory / kStateFile, parts.state, metadata, Durability::disk));
  listed(kValuesFile, write_text(directory / kValuesFile, write_values(snapshot, info)));
  write_manifest(directory, manifest);
  sync_directory(directory);
}

std::optional<double> metric_of(const fs::path& step_directory, const std::string& metric) {
  try {
    const auto metrics = read_values(step_directory / kValuesFile).info.metrics;
    const auto found = metrics.find(metric);
    if (found != metrics.end()) return found->second;
  } catch (const Error&) {  // a best checkpoint that can't be read is none
  }
  return std::nullopt;
}

}  // namespace

Saver::Saver(fs::path directory, CheckpointConfig config)
    : directory_(std::move(directory)), config_(std::move(config)) {
  remove_stale(directory_);
}

Saver::~Saver() {
  if (pending_.valid()) pending_.wait();
}

void Saver::save(Snapshot snapshot, CheckpointInfo info) {
  finish();
  if (!config_.background) return write(snapshot, info);
  pending_ = std::async(std::launch::async,
                        [this, copy = std::move(snapshot), about = std::move(info)] { write(copy, about); });
}

void Saver::finish() {
  if (pending_.valid()) pending_.get();
}

void Saver::write(const Snapshot& snapshot, const CheckpointInfo& info) const {
  const auto begin = std::chrono::steady_clock::now();
  const fs::path path = directory_ / step_name(info.step);
  const fs::path unfinished = beside(path);
  try {
    fs::create_directories(directory_);
    fs::remove_all(unfinished);
    fs::create_directory(unfinished);
    write_files(unfinished, snapshot, info);
    replace_directory(unfinished, path);
    sync_directory(directory_);
    point_best_at(info);
    point_at(directory_ / kLatest, info.step);
    sync_directory(directory_);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    const auto* const ours = dynamic_cast<const Error*>(&error);
    Error described = ours != nullptr ? *ours : Error(error.what());
    described.during("saving the checkpoint of step " + std::to_string(info.step));
    throw described.hint("make room or choose another --run-dir; the checkpoints before this one are whole");
  }
  prune();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (on_saved) on_saved(info.step, path, seconds.count());
}

/// What is best so far is read from the disk, so that it outlives this process.
void Saver::point_best_at(const CheckpointInfo& info) const {
  if (!config_.best) return;
  const auto now = info.metrics.find(config_.best->metric);
  if (now == info.metrics.end() || std::isnan(now->second)) return;
  const std::optional<double> before = metric_of(directory_ / kBest, config_.best->metric);
  const bool better = !before || std::isnan(*before) ||
                      (config_.best->mode == MetricOrder::max ? now->second > *before : now->second < *before);
  if (better) point_at(directory_ / kBest, info.step);
}

void Saver::prune() const {
  const std::vector<std::int64_t> steps = steps_newest_first(directory_);
  const std::optional<std::int64_t> best = linked_step(directory_ / kBest);
  for (std::size_t i = static_cast<std::size_t>(config_.keep); i < steps.size(); ++i)
    if (steps[i] != best) remove_directory(directory_ / step_name(steps[i]));
}

}  // namespace trainctl

#include "checkpoint/average.h"

#include <c10/core/ScalarType.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/parts.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/step_directory.h"
#include "core/error.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_averaged(const std::string& name, const TensorRecord& record) {
  return c10::isFloatingType(record.dtype) && (name.starts_with("model.") || name.starts_with("ema."));
}

/// Returns the tensor of this name. Other names may begin with it.
at::Tensor whole(const Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.read_whole(name).at("");
}

/// Returns the tensor in double. Throws Error for a value that isn't finite, which the mean would take over.
at::Tensor finite_values(const Checkpoint& checkpoint, const std::string& name) {
  at::Tensor values = whole(checkpoint, name).to(at::kDouble);
  if (!values.isfinite().all().item<bool>())
    throw core::Error("tensor " + name + " of " + checkpoint.name() + " has values that are not finite")
        .hint("average fewer checkpoints with --last, or remove this one: its training had diverged");
  return values;
}

at::Tensor mean_of(const std::vector<Checkpoint>& checkpoints, const std::string& name) {
  const TensorRecord& record = checkpoints.front().tensors().at(name);
  at::Tensor sum = finite_values(checkpoints.front(), name);
  for (std::size_t i = 1; i < checkpoints.size(); ++i) {
    const auto found = checkpoints[i].tensors().find(name);
    if (found == checkpoints[i].tensors().end() || found->second.shape != record.shape ||
        found->second.dtype != record.dtype)
      throw core::Error(checkpoints[i].name() + " is of another model than " + checkpoints.front().name() + ": " +
                        name + " differs");
    sum.add_(finite_values(checkpoints[i], name));
  }
  return sum.div_(static_cast<double>(checkpoints.size())).to(record.dtype);
}

void write(const ShownState& state, CheckpointInfo info, const fs::path& directory) {
  fs::create_directory(directory);
  Manifest manifest = write_tensors(directory, copy_state(state, {}, Lifetime::lent), "", core::Durability::disk);
  manifest.step = info.step;
  manifest.files[kValuesFile] =
      write_text(directory / kValuesFile, text_of_values({.values = state.values, .info = std::move(info)}),
                 core::Durability::disk);
  write_manifest(directory, manifest);
  core::sync_directory(directory);
}

}  // namespace

RunningStatistics write_average(const std::vector<fs::path>& sources, const fs::path& directory) {
  std::vector<Checkpoint> checkpoints;
  for (const fs::path& source : sources) checkpoints.emplace_back(source);
  const Checkpoint& first = checkpoints.front();
  ShownState state;
  state.values = first.values();
  RunningStatistics statistics = RunningStatistics::none;
  for (const auto& [name, record] : first.tensors()) {
    const bool averages = is_averaged(name, record);
    if (averages && name.ends_with(".running_mean")) statistics = RunningStatistics::averaged;
    state.tensors[name] = {.tensor = averages ? mean_of(checkpoints, name) : whole(first, name), .part = std::nullopt};
  }
  CheckpointInfo info = first.info();
  info.metrics.clear();
  const fs::path temporary = temporary_path(directory, ::getpid());
  try {
    write(state, std::move(info), temporary);
    replace_directory(temporary, directory);
  } catch (core::Error& error) {
    remove_quietly(temporary);
    throw error.during("writing " + directory.string());
  }
  return statistics;
}

}  // namespace trainctl::checkpoint

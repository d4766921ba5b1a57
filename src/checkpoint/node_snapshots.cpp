#include "checkpoint/node_snapshots.h"

#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>

#include "checkpoint/attempt.h"
#include "checkpoint/parts.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/step_directory.h"
#include "core/error.h"
#include "core/file.h"

namespace trainctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kForgotten{48};

/// Frees the memory of failed runs that were never resumed.
void remove_forgotten(const fs::path& all_runs, const fs::path& own) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(all_runs, error)) {
    const auto age = fs::file_time_type::clock::now() - entry.last_write_time(error);
    if (!error && entry.path() != own && age > kForgotten) remove_quietly(entry.path());
  }
}

void remove_all_but(const fs::path& directory, const std::vector<std::int64_t>& steps) {
  std::error_code error;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const auto step = step_of_name(entry.path().filename().string());
    if (!step || std::ranges::find(steps, *step) == steps.end()) others.push_back(entry.path());
  }
  for (const fs::path& path : others) remove_quietly(path);
}

/// Creates the run's private directory and its parent, which is in a directory that all users share.
void make_run_directory(const fs::path& directory) {
  core::make_private_directory(directory.parent_path());
  core::make_private_directory(directory);
}

}  // namespace

fs::path snapshot_directory(const SnapshotConfig& config, const fs::path& run_directory) {
  fs::path base = config.path;
  if (base.empty()) base = ::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
  const fs::path lock = run_directory / kRunLock;
  std::error_code none;
  const std::string id = fs::is_regular_file(lock, none) ? core::read_file(lock) : "";
  return base / ("trainctl-snapshots-" + std::to_string(::getuid())) /
         core::checksum(fs::absolute(run_directory).lexically_normal().string() + "\n" + id);
}

struct NodeSnapshots::Pending {
  std::int64_t step = 0;
  std::future<void> written;
};

NodeSnapshots::NodeSnapshots(fs::path directory, std::int64_t step, comm::Group& group)
    : directory_(std::move(directory)), group_(group), attempt_(agree_on_number(group)), complete_(step) {
  const std::vector<std::int64_t>& nodes = group.nodes();
  const auto own = static_cast<std::size_t>(group.rank());
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] != nodes[own]) continue;
    local_size_ += 1;
    if (rank < own) local_rank_ += 1;
  }
  make_run_directory(directory_);
  if (!leads_node()) return;
  remove_forgotten(directory_.parent_path(), directory_);
  remove_all_but(directory_, {step});
}

NodeSnapshots::~NodeSnapshots() {
  if (pending_ && pending_->written.valid()) pending_->written.wait();
}

/// Waits for the pending write. Returns whether this member wrote its part.
bool NodeSnapshots::finish_write() {
  if (!pending_ || !pending_->written.valid()) return true;
  try {
    pending_->written.get();
    return true;
  } catch (const std::exception& error) {
    if (on_failure)
      on_failure("the snapshot of step " + std::to_string(pending_->step) +
                 " is left out: " + core::as_error(error).what());
    return false;
  }
}

void NodeSnapshots::save(const ShownState& state, CheckpointInfo info) {
  const bool wrote = finish_write();
  const std::int64_t step = info.step;
  Snapshot snapshot =
      copy_state(state, {.index = local_rank_, .count = local_size_, .copies = Copies::each}, Lifetime::own);
  const at::Tensor sums = at::zeros({2}, at::kLong);
  sums[0].fill_(snapshot.elements_of_own);
  sums[1].fill_(wrote ? 0 : 1);
  group_.all_reduce(sums, comm::Reduce::sum)->wait();
  if (pending_ && sums[1].item<std::int64_t>() == 0) complete_ = pending_->step;
  if (leads_node()) remove_all_but(directory_, {complete_, step});
  pending_ = std::make_unique<Pending>();
  pending_->step = step;
  Part part{.index = group_.rank(),
            .count = group_.size(),
            .attempt = attempt_,
            .elements = snapshot.elements_of_all + sums[0].item<std::int64_t>(),
            .manifest = {},
            .values = {.values = std::move(snapshot.values), .info = std::move(info)}};
  pending_->written = std::async(
      std::launch::async, [directory = directory_ / step_name(step), taken = std::move(snapshot), part]() mutable {
        const std::string name = part_name(part.index, part.count);
        make_step_directory(directory);
        fs::remove(directory / (name + ".json"));
        try {
          part.manifest = write_tensors(directory, taken, name, core::Durability::process);
          part.manifest.step = part.values.info.step;
          write_part(directory, part, core::Durability::process);
        } catch (...) {
          remove_quietly(directory / (name + ".safetensors"));
          throw;
        }
      });
}

void NodeSnapshots::remove() {
  finish_write();
  group_.barrier();
  if (leads_node()) remove_quietly(directory_);
}

void make_step_directory(const fs::path& step_directory) {
  make_run_directory(step_directory.parent_path());
  core::make_private_directory(step_directory);
}

bool has_snapshots(const fs::path& directory) {
  std::error_code error;
  return core::is_private_directory(directory.parent_path()) && core::is_private_directory(directory) &&
         !fs::is_empty(directory, error);
}

}  // namespace trainctl::checkpoint

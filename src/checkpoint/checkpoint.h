// A run's state on disk: tensors in safetensors, the rest in one JSON, a checksum for each file, a marker last.
// A directory without the marker, or whose sums are wrong, is never loaded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "checkpoint/config.h"
#include "runtime/state.h"

namespace trainctl {

/// A copy of everything that components showed, on the host.
struct Snapshot {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::variant<std::int64_t, double, std::string>> values;
};

/// Collects what it is shown. Tensors are copied, so that training may go on.
class SnapshotWriter final : public State {
 public:
  void tensor(const std::string& name, at::Tensor& value) override;
  void integer(const std::string& name, std::int64_t& value) override;
  void number(const std::string& name, double& value) override;
  void text(const std::string& name, std::string& value) override;
  Snapshot take() { return std::move(snapshot_); }

 private:
  Snapshot snapshot_;
};

/// Gives back what was collected. Missing names and other shapes are Errors; `unused` lists what nobody asked for.
class SnapshotReader final : public State {
 public:
  explicit SnapshotReader(const Snapshot& snapshot) : snapshot_(snapshot) {}
  void tensor(const std::string& name, at::Tensor& value) override;
  void integer(const std::string& name, std::int64_t& value) override;
  void number(const std::string& name, double& value) override;
  void text(const std::string& name, std::string& value) override;
  std::vector<std::string> unused() const;

 private:
  template <class T>
  void give_back(const std::string& name, T& value);

  const Snapshot& snapshot_;
  std::set<std::string> used_;
};

/// What a checkpoint says of itself besides its state.
struct CheckpointInfo {
  std::int64_t step = 0;
  std::map<std::string, std::string> config;  // flattened resolved config: "optimizer.lr" -> "0.001"
  std::map<std::string, double> metrics;      // of the evaluation at this very step; empty where there was none
  std::string data_fingerprint;
  std::int64_t global_batch = 0;  // samples of a step on all ranks
};
/// Of a complete checkpoint.
CheckpointInfo read_info(const std::filesystem::path& step_directory);

/// Saves into `<directory>/step_%08d`, in the background where the config says so, at most one at a time; then points
/// `latest` at it, and `best` where its metric is the best so far, and removes all but the newest `keep` and the best.
class Saver {
 public:
  /// Removes what writers that died left half-written in `directory`.
  Saver(std::filesystem::path directory, CheckpointConfig config);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  /// Waits for the save under way; what it throws is lost.
  ~Saver();
  /// Takes the copy over and returns; waits for (and reports the failure of) the save before it.
  void save(Snapshot snapshot, CheckpointInfo info);
  /// Waits for the save under way; throws what it threw.
  void finish();
  /// Called from the saving thread when a checkpoint is complete: step, directory, seconds.
  std::function<void(std::int64_t, const std::filesystem::path&, double)> on_saved;

 private:
  void write(const Snapshot& snapshot, const CheckpointInfo& info) const;
  void point_best_at(const CheckpointInfo& info) const;
  void prune() const;

  std::filesystem::path directory_;
  CheckpointConfig config_;
  std::future<void> pending_;
};

/// The newest complete checkpoint of a `checkpoints/` or run directory; a step directory stands for itself. Checksums
/// are verified, broken ones are passed over (and listed in `passed_over` with the reason). Steps beyond `latest`, left
/// behind when the run went back to an earlier one, come last.
struct Found {
  std::filesystem::path path;
  std::int64_t step = 0;
};
std::optional<Found> find_newest(const std::filesystem::path& directory,
                                 std::vector<std::string>* passed_over = nullptr);

struct Loaded {
  Snapshot snapshot;
  CheckpointInfo info;
};
/// Tensors are mapped, not copied. Errors name the file.
Loaded load(const std::filesystem::path& step_directory);

/// How `now` differs from the checkpoint's config: "optimizer.lr: 0.001 -> 0.01".
std::vector<std::string> changed_keys(const CheckpointInfo& info, const std::map<std::string, std::string>& now);

}  // namespace trainctl

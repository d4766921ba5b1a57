// A run's state on disk: tensors in safetensors, the rest in one JSON, checksums of every file, a marker last. Of
// several ranks each writes a part, in the background; a checkpoint is read by any number of them, however their
// tensors lie. A directory without the marker is never loaded, nor what its sums don't confirm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/chunked_file.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_index.h"
#include "checkpoint/values.h"
#include "comm/group.h"
#include "core/error.h"
#include "runtime/state.h"

namespace trainctl::checkpoint {

/// What components showed: their own tensors, no copies.
class ShownState final : public runtime::State {
 public:
  struct Shown {
    at::Tensor tensor;
    std::optional<runtime::PartOf> part;  // where it is a stretch
  };
  void tensor(const std::string& name, at::Tensor& value) override;
  void part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& whole) override;
  void integer(const std::string& name, std::int64_t& value) override;
  void number(const std::string& name, double& value) override;
  void text(const std::string& name, std::string& value) override;

  std::map<std::string, Shown> tensors;
  StateValues values;
};

/// When a checkpoint is written. beside_training: from a copy while training goes on, if the config says `async`.
/// at_once: before save() returns, without a copy of what is in the file's order already. That is for the last one,
/// since nothing goes on beside it.
enum class Writing { beside_training, at_once };

/// The writer of checkpoints in `<directory>/step_%08d`, with at most one write at a time, in the background if the
/// config says so. A complete checkpoint becomes `latest`, and `best` if its metric is the best so far. The saver then
/// removes all checkpoints but the newest `keep` and the best. Each member of a group has a Saver. All members call the
/// same functions at the same step, and see one directory.
class Saver {
 public:
  /// Removes what writers that died left half-written in `directory`. `group` outlives it; null: it saves alone.
  Saver(std::filesystem::path directory, CheckpointConfig config, comm::Group* group = nullptr);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  /// Waits for this member's write, not for those of others; what fails is lost.
  ~Saver();
  /// Saves this member's share of `state`. First waits for the save before it. Passes the failure of a save to
  /// on_failed and goes on, or throws it if on_failed is empty. The failure of a save at once is finish()'s to throw.
  void save(const ShownState& state, CheckpointInfo info, Writing writing = Writing::beside_training);
  /// Waits until the save under way is complete; throws what it threw.
  void finish();
  /// Waits until the save under way is complete or has failed. Passes a failure to on_failed, as save() does.
  void settle();
  /// Called from the first member's saving thread when a checkpoint is complete: step, directory, seconds.
  std::function<void(std::int64_t, const std::filesystem::path&, double)> on_saved;
  /// Told by save() of a failure, on the members that know of it. That of the last save is finish()'s to throw.
  std::function<void(const std::string&)> on_failed;

 private:
  struct Work;
  struct Pending;
  bool is_first() const { return group_ == nullptr || group_->rank() == 0; }
  std::int64_t size() const { return group_ == nullptr ? 1 : group_->size(); }
  /// Whether it is so on any member; called by all.
  bool any_member(bool flag) const;
  /// Waits until the save under way is done on all members, or has failed. Returns the failure.
  std::optional<core::Error> wait_for_write();
  /// Passes a failure to on_failed, or throws it.
  void report(const std::optional<core::Error>& failure) const;
  void write_checkpoint(Work work, Pending& pending) const;
  void publish(const Work& work) const;

  std::filesystem::path directory_;
  CheckpointConfig config_;
  comm::Group* group_;
  std::int64_t attempt_ = 0;  // of the job, the same for all members
  std::int64_t owner_ = 0;    // the first member's process
  std::unique_ptr<Pending> pending_;
  std::optional<core::Error> lost_;  // the last save, where it has failed already
};

/// A complete checkpoint's step, and where it is.
struct Found {
  std::filesystem::path path;
  std::int64_t step = 0;
  bool is_withdrawn = false;  // the run went back to an earlier step
};

/// Checkpoints with all their files, newest first, of a `checkpoints/` or run directory; a step directory stands for
/// itself. Withdrawn ones come last. What is passed over is listed with the reason.
std::vector<Found> find_complete(const std::filesystem::path& directory,
                                 std::vector<std::string>* passed_over = nullptr);
/// Lets the directory tell that a run goes on from its checkpoint of `step`. Later ones are withdrawn, `latest` names
/// this one, and `best` no later one. It then names the step `best`, if that one's checkpoint is there; 0: there is
/// none.
void go_on_from(const std::filesystem::path& checkpoints, std::int64_t step, std::int64_t best);
/// The first of them whose checksums are right: reads every byte.
std::optional<Found> find_newest(const std::filesystem::path& directory,
                                 std::vector<std::string>* passed_over = nullptr);

/// A checkpoint that is open for reading.
class Checkpoint {
 public:
  /// Reads and checks all but the tensors. Errors name the file.
  explicit Checkpoint(const std::filesystem::path& step_directory);
  /// Opens the parts that ranks wrote, named by their JSON files, as one checkpoint.
  explicit Checkpoint(const std::vector<std::filesystem::path>& parts);

  const std::string& name() const { return name_; }
  const CheckpointInfo& info() const { return values_.info; }
  const StateValues& values() const { return values_.values; }
  const TensorIndex& tensors() const { return tensors_; }

  /// Elements, as the tensor's order or `runs` of it count them, and where they go.
  struct Range {
    std::string tensor;
    std::int64_t offset = 0;
    std::int64_t count = 0;
    std::byte* into = nullptr;
    runtime::ElementRuns runs{};
  };
  /// Reads the files' chunks in which the ranges lie, and checks those.
  void read(const std::vector<Range>& ranges) const;
  /// The tensors whose names begin with `prefix`, without it: whole, row-major, on the host.
  TensorMap read_whole(const std::string& prefix = "") const;

 private:
  struct File {
    std::filesystem::path path;
    FileSums sums;
  };
  std::string name_;
  Values values_;
  TensorIndex tensors_;
  std::map<std::string, File> files_;
};

/// The reader of saved state. Throws Error as soon as a component asks for a missing name, or with another shape or
/// dtype. finish() reads the tensors, from the ranges of files that hold the elements asked for.
class StateReader final : public runtime::State {
 public:
  /// What becomes of an optimizer's tensors: a run that only uses the model leaves them as they are.
  enum class OptimizerSlots { read, ignored };
  explicit StateReader(const Checkpoint& checkpoint, OptimizerSlots slots = OptimizerSlots::read);
  ~StateReader() override;
  void tensor(const std::string& name, at::Tensor& value) override;
  /// A slot of a parameter of which the checkpoint has none, since it was frozen, begins with the key's first values.
  void slot(const runtime::SlotKey& key, at::Tensor& value) override;
  void part(const std::string& name, at::Tensor& stretch, const runtime::PartOf& whole) override;
  bool has(const std::string& name) override;
  void begins_anew(const std::string& name) override;
  void integer(const std::string& name, std::int64_t& value) override;
  void number(const std::string& name, double& value) override;
  void text(const std::string& name, std::string& value) override;
  /// Components and parameters' slots that the checkpoint lacks: "ema", "optimizer of layer.weight".
  const std::vector<std::string>& begun_anew() const { return begun_anew_; }
  /// What a file's checksums don't confirm is an Error; tensors may hold anything then. Returns how many bytes were
  /// asked for.
  std::uint64_t finish();
  /// What nobody asked for, in all of `group`, whose members all call this; null: this reader is alone.
  std::vector<std::string> unused(comm::Group* group = nullptr) const;

 private:
  struct Request;
  template <class T>
  void give_back(const std::string& name, T& value);
  const TensorRecord& record(const std::string& name, const at::Tensor& value, c10::IntArrayRef shape) const;
  /// Returns whether the checkpoint has no slot of the key's parameter. Then finish() gives `value` its first values.
  bool begins_slot_anew(const std::string& name, const runtime::SlotKey& key, const at::Tensor& value);

  bool ignores(const std::string& name) const;

  const Checkpoint& checkpoint_;
  OptimizerSlots slots_;
  std::vector<Request> requests_;
  std::set<std::string> used_;
  std::vector<std::string> begun_anew_;
  std::vector<std::pair<at::Tensor, at::Tensor>> first_values_;  // slots that begin anew, and what they begin with
};

/// Writes the model's tensors, or all of them, to one safetensors file, a few MiB at a time.
enum class Consolidated { model, everything };
void consolidate(const Checkpoint& checkpoint, const std::filesystem::path& path, Consolidated what);

/// How `now` differs from the checkpoint's config: "optimizer.lr: 0.001 -> 0.01".
std::vector<std::string> changed_keys(const CheckpointInfo& info, const std::map<std::string, std::string>& now);

}  // namespace trainctl::checkpoint

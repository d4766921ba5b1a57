// The memory that this CPU's kernels hold beside their results, measured once for each operator and shape.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/memory/kernel_memory.h"

namespace trainctl::plan {

/// What an operator's kernel takes (+) and gives back (-) in order, in bytes, and the bytes of its results.
struct KernelTrace {
  std::vector<std::int64_t> events;
  std::int64_t result_bytes = 0;

  /// The most that is held beside the results.
  std::int64_t workspace() const;
};

/// Runs the call with a batch of so many samples (0: its own shapes) on this thread and watches its allocations.
KernelTrace trace_kernel(const KernelCall& call, std::int64_t batch);

/// The trace at a batch beyond two traces at smaller batches: each event grows in a straight line. Nothing if the two
/// traces don't have the same events.
std::optional<KernelTrace> extrapolate(const KernelTrace& smaller, const KernelTrace& larger, double steps_beyond);

/// Traces of this CPU's kernels, kept in a file for each CPU model, set of instructions, number of threads and version.
class KernelWorkspaces {
 public:
  /// Reads what `directory` has; `renew` forgets it; `only` measures nothing beside it, and takes what kernels usually
  /// hold. An empty directory: nothing is read or written.
  enum class Kept { read, renew, only };
  explicit KernelWorkspaces(const std::filesystem::path& directory = {}, Kept kept = Kept::read);

  /// The bytes that the call's kernel holds. Runs the kernel if its shape isn't known: at most some tens of
  /// milliseconds, at a smaller batch if the call's own takes longer. The call's bound if it can't be run.
  std::int64_t measure(const KernelCall& call);
  /// Writes the file if something new was measured; a file that can't be written is passed over.
  void save();

 private:
  const KernelTrace& trace(const KernelCall& call, std::int64_t batch);

  std::filesystem::path file_;
  Kept kept_;
  std::map<std::string, std::map<std::int64_t, KernelTrace>> traces_;  // by the call's key and the batch
  bool is_changed_ = false;
};

}  // namespace trainctl::plan

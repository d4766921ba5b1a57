// A few steps of the very run that a config describes, on tensors without values: what a rank would hold in memory,
// when and for what; and which operators would run. Nothing is read, computed or written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "experiment/experiment.h"

namespace trainctl::plan {

/// What memory is held for.
enum class Purpose {
  parameters,
  buffers,
  gradients,
  optimizer,
  averages,
  batches,
  activations,
  communication,
  checkpoint,
  workspace
};
inline constexpr std::size_t kNumPurposes = 10;
std::string_view name_of(Purpose purpose);

/// Bytes that a rank holds at one moment.
struct HeldMemory {
  std::int64_t bytes[kNumPurposes] = {};

  std::int64_t of(Purpose purpose) const { return bytes[static_cast<std::size_t>(purpose)]; }
  std::int64_t total() const;
};

/// A moment of the run.
struct Moment {
  std::string phase;  // build, data, forward, backward, recompute, clip, optimizer, ema: the Span; update: between them
  std::string block;  // of the model; empty: outside of them
};

struct BlockMemory {
  std::string block;
  std::int64_t activation_bytes = 0;  // held for it at the peak
};

/// Memory over the last step: `held_bytes` from `event` on, the number of an allocation or release.
struct TimelinePoint {
  std::int64_t event = 0;
  std::int64_t held_bytes = 0;
  std::string phase;
};

/// What a rank of a pipeline holds.
struct StageMemory {
  std::int64_t rank = 0;  // of the pipeline's
  std::int64_t peak_bytes = 0;
  std::int64_t kept_bytes = 0;
};

/// A step of the ranks, which are alike; of a pipeline's, that of the rank that holds most.
struct DryRunStep {
  HeldMemory at_peak;
  Moment peak;
  std::int64_t kept_bytes = 0;          // between steps
  std::vector<BlockMemory> blocks;      // at the peak, those that hold something, in the model's order
  std::vector<TimelinePoint> timeline;  // of the last step, where it rises or falls notably

  std::vector<StageMemory> stages{};  // of a pipeline: of its ranks, or of some of many

  std::int64_t num_parameters = 0;         // of the whole model
  std::int64_t num_own_parameters = 0;     // of the rank's part
  std::int64_t num_trained = 0;            // of those
  std::int64_t num_sharing_gradients = 1;  // ranks
  double sent_bytes = 0;                   // in a step, between ranks that share layers or sequences
  double flops_per_sample = 0;             // forward pass
  std::int64_t batch_size = 0;             // of a micro-batch and rank
  std::int64_t micro_batches = 0;
  std::int64_t global_batch = 0;
  std::int64_t tokens_per_sample = 0;  // 0: not of text
};

/// What the ranks compute on.
enum class PlannedDevice { cpu, cuda };

class KernelWorkspaces;

struct DryRunOptions {
  std::int64_t world = 1;  // ranks
  PlannedDevice device = PlannedDevice::cpu;
  /// The function that is called with the last step, and runs it exactly once. To see the step's operators, it installs
  /// an observer (at::RecordFunction) around the call, on this thread. Empty: the step is just run.
  std::function<void(const std::function<void()>& step)> around_step{};
  /// What is known of this CPU's kernels, for a plan of the CPU; null: those that matter are measured anew.
  KernelWorkspaces* workspaces = nullptr;
  bool checks_initial_weights = false;        // opens model.init_from
  bool assumes_sizes = false;                 // where only the data tells them; else that is OnlyDataTells
  const dataset::SampleSpec* data = nullptr;  // of the training samples, if the data are open
  std::int64_t longest_text = 0;              // tokens, of the training samples; 0: the longest that may be
};

/// Throws OnlyDataTells, and Error where the planner doesn't know an operator.
DryRunStep dry_run_step(const experiment::Experiment& experiment, const DryRunOptions& options = {});

/// Builds what a run on one rank would train, and compares it with the header of model.init_from. Throws Error with
/// what building would refuse. If only the data tells a size, patterns are checked on a network of assumed sizes, and
/// of model.init_from only whether it can be read.
void dry_build(const experiment::Experiment& experiment);

}  // namespace trainctl::plan

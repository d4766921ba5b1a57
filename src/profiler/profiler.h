// Records some steps of a run, and says where their time and memory went.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "profiler/analysis/analysis.h"
#include "profiler/config.h"
#include "profiler/summary.h"

namespace trainctl::profiler {

/// What a recording can't know of the run.
struct ProfiledRun {
  c10::Device device;
  std::int64_t rank = 0;
  RunFacts run{};
  DeviceFacts machine{};
  Peaks peaks{};
  std::vector<ModuleFacts> modules{};  // in order of the model
  StaticMemory memory{};
  /// Where gradients lie, at the moment of the call.
  std::function<std::vector<std::uintptr_t>()> gradients{};
};

/// Follows the steps of a run through its schedule. The trainer tells it where steps begin and end; nothing else
/// changes.
class Profiler {
 public:
  virtual ~Profiler() = default;
  virtual void step_begins() = 0;
  virtual void step_ends() = 0;
  /// Steps after which the schedule is over.
  virtual std::int64_t num_steps() const = 0;
  virtual bool is_over() const = 0;
  /// Between step_begins and step_ends: whether this step is kept.
  virtual bool is_recording() const = 0;
  /// All but what the trainer alone knows: throughput, ranks, the loader's cause; and so without findings.
  virtual ProfileSummary summary() = 0;
};

/// Traces go to `directory` as `<host>_<pid>.<ms>.pt.trace.json`.
std::unique_ptr<Profiler> build(const ProfilerConfig& config, ProfiledRun run, const std::filesystem::path& directory);

}  // namespace trainctl::profiler

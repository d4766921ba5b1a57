// From a Capture to the parts of a summary. Each is a pure function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/record/capture.h"
#include "profiler/summary.h"

namespace trainctl::profiler {

struct ModuleFacts {
  std::string name;  // as its span is called
  bool is_block = false;
  std::int64_t parameter_bytes = 0;  // its own and those below it
};

/// Returns the steps' times, split into parts. On a CPU the innermost known span of the training thread gives the part.
/// On a GPU its work at each moment gives the part; while it is idle, the spans of the host do.
StepSummary analyse_steps(const Capture& capture);

/// Returns this rank's actions of each recorded step of a pipeline; nothing without one. On a GPU an action lasts as
/// long as the kernels that it launched.
std::vector<PipelineStep> analyse_pipeline(const Capture& capture);

Ranked<OperatorSummary> analyse_operators(const Capture& capture, const Peaks& peaks);
Ranked<KernelSummary> analyse_kernels(const Capture& capture, const Peaks& peaks);

CallNode analyse_calls(const Capture& capture);
std::vector<ModuleSummary> analyse_modules(const Capture& capture, const std::vector<ModuleFacts>& modules);

/// Returns the timeline of the last cycle.
Timeline analyse_timeline(const Capture& capture);

/// What lies in memory all the time.
struct StaticMemory {
  std::int64_t parameters = 0;  // bytes, with buffers
  std::int64_t optimizer = 0;
  std::int64_t limit = 0;
};
/// Returns the memory of the last cycle. Also sets activations_mib and peak_mib of the modules, and the peaks of the
/// spans, in `summary`.
MemorySummary analyse_memory(const Capture& capture, const StaticMemory& facts, ProfileSummary& summary);

HostWork analyse_host(const Capture& capture);

/// At most three, dearest first.
std::vector<ConvolutionSummary> analyse_convolutions(const Capture& capture);

}  // namespace trainctl::profiler

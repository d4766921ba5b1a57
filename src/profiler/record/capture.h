// What recordings hold, in plain structures: operators, spans and modules of every thread, kernels, allocations. All
// analysis is over this, so that it can be tested without a recording.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/free_space.h"

namespace trainctl::profiler {

/// A step is a span of this name with its number behind it, as TensorBoard's profiler page knows it.
inline constexpr std::string_view kStepSpan = "ProfilerStep#";

enum class EventKind { op, span, module, runtime };

/// `runtime`: a call of CUDA's, such as cudaStreamSynchronize.
struct CapturedEvent {
  EventKind kind = EventKind::op;
  std::int32_t name = 0;     // in Capture::names
  std::int32_t parent = -1;  // in Capture::events, before this one
  std::int32_t thread = 0;   // in Capture::threads
  std::int32_t step = -1;    // in Capture::steps
  std::int32_t stage = -1;   // the outermost span inside a step, in Capture::names
  std::int32_t module = -1;  // the innermost that it works for, in Capture::names; of backward operators too
  bool is_backward = false;  // autograd's call of one node
  bool converts_layout = false;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t self_ns = 0;  // without what it called
  std::int64_t sequence = -1;
  std::int64_t forward_thread = 0;
  std::int32_t shapes = 0;  // in Capture::names
  std::int32_t dtype = 0;   // likewise
  double flops = 0;         // of its own; 0: not known
  double bytes = 0;         // of the tensors that it reads and writes

  std::int64_t duration_ns() const { return end_ns - begin_ns; }
};

enum class DeviceWork { kernel, copy_to_device, copy, collective };

struct CapturedKernel {
  DeviceWork work = DeviceWork::kernel;
  std::int32_t name = 0;    // in Capture::names
  std::int32_t event = -1;  // that launched it, in Capture::events
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t stream = 0;
  std::vector<std::int64_t> grid;
  std::vector<std::int64_t> block;
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
  double occupancy = 0;  // share; 0: not known
};

/// An allocation or release of memory on the profiled device.
struct CapturedAllocation {
  std::int64_t ns = 0;
  std::int32_t event = -1;  // that was open, in Capture::events
  std::uintptr_t address = 0;
  std::int64_t bytes = 0;      // less than 0: freed
  std::int64_t allocated = 0;  // on the device after it
  std::int64_t reserved = 0;
};

/// A convolution of images in the forward pass.
struct CapturedConvolution {
  std::int32_t event = -1;
  std::vector<std::int64_t> input{};  // sizes
  std::vector<std::int64_t> weight{};
  std::vector<std::int64_t> stride{};
  std::vector<std::int64_t> padding{};
  std::vector<std::int64_t> dilation{};
  std::int64_t groups = 1;
};

struct CapturedStep {
  std::int64_t number = 0;
  std::int32_t event = -1;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

struct FreeSpaceSample {
  std::int64_t ns = 0;
  runtime::FreeSpace space{};
};

/// Where the gradients lay when a step's update began.
struct GradientSample {
  std::int64_t ns = 0;
  std::vector<std::uintptr_t> addresses;
};

struct Capture {
  std::vector<std::string> names{""};  // each once
  std::vector<std::string> threads;
  std::vector<CapturedEvent> events;  // of a thread in order of begin, callers before what they call
  std::vector<CapturedKernel> kernels;
  std::vector<CapturedAllocation> allocations;  // in order of time
  std::vector<CapturedConvolution> convolutions;
  std::vector<CapturedStep> steps;
  std::vector<FreeSpaceSample> free_space;
  std::vector<GradientSample> gradients;
  /// Begin of the last cycle, in steps and in allocations: memory and timeline are shown of that.
  std::size_t last_cycle_step = 0;
  std::size_t last_cycle_allocation = 0;

  const std::string& name_of(std::int32_t name) const { return names[static_cast<std::size_t>(name)]; }
  std::int32_t intern(const std::string& name);
  /// -1 where nothing has that name.
  std::int32_t find(const std::string& name) const;
  const CapturedEvent& event(std::int32_t index) const { return events[static_cast<std::size_t>(index)]; }

 private:
  std::map<std::string, std::int32_t> index_{{"", 0}};
};

/// Fills in what follows from the events' order and nesting: step, stage, self time, and the modules of operators
/// inside modules. `first`: events before it are done.
void complete_nesting(Capture& capture, std::size_t first);

}  // namespace trainctl::profiler

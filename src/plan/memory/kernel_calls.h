// The kernels of an abstract run that hold memory of their own: bounded while the run goes on, measured where they
// decide the peak.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/memory/kernel_workspaces.h"
#include "plan/memory/memory_tracker.h"

namespace trainctl::plan {

class KernelCalls {
 public:
  /// `log` and `workspaces` outlive it.
  KernelCalls(MemoryTracker& log, KernelWorkspaces& workspaces) : log_(log), workspaces_(workspaces) {}

  /// The bytes to take for the call on top of the stack, as a bound. The caller takes them next, if there are any.
  std::int64_t bound(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  /// Measures calls, in the order in which they would be the peak, until a moment without bounds holds most. The
  /// other calls then take what they usually do: they hold less than the peak either way.
  void settle();

 private:
  struct Shape {
    KernelCall call;
    std::vector<std::int64_t> pieces;  // of the log
    bool is_measured = false;
  };
  Shape* find_unmeasured(std::int64_t moment);
  void resize(const Shape& shape, std::int64_t bytes);

  MemoryTracker& log_;
  KernelWorkspaces& workspaces_;
  std::map<std::string, Shape> shapes_;
};

}  // namespace trainctl::plan

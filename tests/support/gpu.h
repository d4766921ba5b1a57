// Tests that need a GPU.
#pragma once

#include <optional>

#include "runtime/device.h"
#include "support/skip.h"

namespace trainctl::testing {

/// Skips the current test case with the cause if this process can use no GPU.
inline void need_gpu() {
  const std::optional<runtime::GpuProblem> problem = runtime::gpu_problem();
  if (problem) skip("no GPU: " + problem->text);
}

}  // namespace trainctl::testing

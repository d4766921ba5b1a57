// A run that ran out of memory: the plan against the reality, and what to change.
#pragma once

#include <exception>
#include <string>

#include "plan/plan.h"
#include "train/run/run.h"

namespace trainctl::plan {

/// Returns whether memory of the device or of the host ran out.
bool is_out_of_memory(const std::exception& error);

struct MemoryReport {
  std::string what;  // lines: the failure, what was planned, what was there, the largest
  std::string hint;  // the smallest change that is predicted to fit; "" where none was found
};

/// `run` as the failure left it. Runs the plan, so takes a second where changes are looked for.
MemoryReport explain_out_of_memory(train::Run& run, const std::exception& error, const DryRunOptions& options,
                                   const MemoryLimit& limit);

}  // namespace trainctl::plan

// Work that may crash, hang or end the process, done in a child process.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace trainctl::machine {

struct ChildOutcome {
  std::string output;   // what the work wrote to standard output
  std::string problem;  // why the work did not end as it should, in one line; empty if it did
};

/// Runs `work` in a child process and waits at most `limit`. The problem is the exception that `work` threw, the signal
/// that ended the child, or the limit. If `work` returned another value than 0, the problem is the last line on
/// standard error. Call while this process has one thread.
ChildOutcome run_in_child(const std::function<int()>& work, std::chrono::milliseconds limit);

}  // namespace trainctl::machine

// Processes of one machine, seen from another: whether one still runs, and who started this one. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <string>

namespace trainctl::comm {

struct ProcessId {
  std::string machine;          // its boot, and the namespace that its number is in
  std::int64_t number = 0;      // 0: nobody
  std::int64_t start_time = 0;  // tells it from a later process with its number
  bool operator==(const ProcessId&) const = default;
};

ProcessId own_process();
/// Nobody, where the parent isn't seen from here (the first process of a container).
ProcessId parent_process();

/// "8d0c…/4026531836/812/5512": a name among all machines.
std::string text_of(const ProcessId& process);

/// Ended, or about to: killed and not yet collected by its parent. False for processes of other machines.
bool has_ended(const ProcessId& process);

/// By a signal or a debugger, until it is continued. False for processes of other machines.
bool is_stopped(const ProcessId& process);

/// Ends one of this machine that doesn't answer; whether that was possible.
bool end_by_force(const ProcessId& process);

}  // namespace trainctl::comm

// SIGINT and SIGTERM as a request that the training loop reads between steps.
#pragma once

namespace trainctl {

/// While it lives, the first SIGINT or SIGTERM is remembered; a second SIGINT ends the process at once.
/// One at a time: signal handlers are the process's.
class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();
  /// 0, SIGINT or SIGTERM.
  int received() const;
};

}  // namespace trainctl

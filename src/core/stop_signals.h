// The signals that ask a training to save and end.
#pragma once

#include <array>
#include <csignal>

namespace trainctl::core {

/// If ranks receive several of these, the last in this order counts. SIGUSR1 and SIGUSR2 are what job schedulers send
/// before a time limit (sbatch --signal), SIGXCPU what a limit of CPU time sends.
inline constexpr std::array kStopSignals{SIGPIPE, SIGXCPU, SIGUSR1, SIGUSR2, SIGHUP, SIGTERM, SIGINT};

}  // namespace trainctl::core

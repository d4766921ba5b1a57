// The signals that ask a training to save and end.
#pragma once

#include <array>
#include <csignal>

namespace trainctl::core {

/// If ranks receive several of these, the last in this order counts.
inline constexpr std::array kStopSignals{SIGPIPE, SIGHUP, SIGTERM, SIGINT};

}  // namespace trainctl::core

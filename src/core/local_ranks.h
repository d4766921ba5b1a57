// How `trainctl train --nproc N`, the parent, and the ranks that it starts know each other: names of environment
// variables.
#pragma once

namespace trainctl {

/// The parent's process id.
inline constexpr const char* kParentVariable = "TRAINCTL_PARENT";
/// For rank 0: the descriptor of a socket that the parent has bound to MASTER_PORT.
inline constexpr const char* kListenVariable = "TRAINCTL_LISTEN";

}  // namespace trainctl

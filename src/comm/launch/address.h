// Which of this machine's addresses the other nodes reach it by, and whether another can be reached.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trainctl::comm {

std::string host_name();

enum class Reach { this_node, other_nodes };

/// The address from which this machine would talk to `host`; where that is a loopback although other nodes are to reach
/// it (Debian gives a machine's own name 127.0.1.1), the first address of an interface that is up.
std::string own_address(const std::string& host, std::int64_t port, Reach reach);

/// Waits until something listens on the host's port. Returns "", or what was in the way when the time was over.
std::string wait_for_listener(const std::string& host, std::int64_t port, std::chrono::milliseconds timeout);

}  // namespace trainctl::comm

// Which of this machine's addresses the other nodes reach it by, and whether another can be reached.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace trainctl::comm {

std::string host_name();

enum class Reach { this_node, other_nodes };

/// Returns the address from which this machine connects to `host`. If other nodes are to reach it and it is a loopback
/// or unknown, returns the address of the first interface that is up. Debian, for example, gives a machine's own name
/// the address 127.0.1.1. Throws Error if the name is unknown or no interface is up.
std::string own_address(const std::string& host, std::int64_t port, Reach reach);

/// Waits until something listens on the host's port. Returns "", or what was in the way when the time was over.
std::string wait_for_listener(const std::string& host, std::int64_t port, std::chrono::milliseconds timeout);

}  // namespace trainctl::comm

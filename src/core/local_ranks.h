// How `trainctl train --nproc N`, the parent, and the ranks that it starts know each other: names of environment
// variables, and the socket where they meet.
#pragma once

namespace trainctl::core {

/// The parent's process id.
inline constexpr const char* kParentVariable = "TRAINCTL_PARENT";
/// For rank 0: the descriptor of a socket that the parent has bound to MASTER_PORT.
inline constexpr const char* kListenVariable = "TRAINCTL_LISTEN";

/// Listens on a free port of the loopback, which rank 0 takes over: no other process can take the port in between.
class Listener {
 public:
  Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  int descriptor() const { return descriptor_; }
  int port() const { return port_; }

 private:
  int descriptor_;
  int port_ = 0;
};

}  // namespace trainctl::core

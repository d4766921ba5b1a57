// A socket that listens on a free port of the loopback, as `trainctl train --nproc` hands it to rank 0.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace trainctl::testing {

class Listener {
 public:
  Listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(descriptor_, 64) != 0 ||
        ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw std::runtime_error("no port to listen on");
    port_ = ntohs(address.sin_port);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::close(descriptor_); }

  int descriptor() const { return descriptor_; }
  std::int64_t port() const { return port_; }
  /// For a rank in this process, which will own and close it.
  int duplicate() const { return ::dup(descriptor_); }

 private:
  int descriptor_;
  std::int64_t port_ = 0;
};

}  // namespace trainctl::testing

#include "core/local_ranks.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"

namespace trainctl::core {

Listener::Listener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (descriptor_ < 0 || ::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(descriptor_, SOMAXCONN) != 0 ||
      ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw system_error("listen on", "a port of 127.0.0.1");
  port_ = ntohs(address.sin_port);
}

Listener::~Listener() {
  ::close(descriptor_);
}

}  // namespace trainctl::core

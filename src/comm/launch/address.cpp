#include "comm/launch/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <thread>

#include "core/error.h"

namespace trainctl::comm {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Resolves a name; returns no address and sets `problem` if the name is unknown.
AddressList addresses_of(const std::string& host, std::int64_t port, int socket_type, std::string& problem) {
  addrinfo hints{};
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) problem = ::gai_strerror(error);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  else if (address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(), text.size());
  return text.data();
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// Returns the local address of the route to `target`. Connecting a datagram socket only chooses the route and sends
/// nothing.
std::string source_address(const addrinfo& target) {
  const int descriptor = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool found = ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 &&
                     ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  ::close(descriptor);
  return found ? numeric(reinterpret_cast<const sockaddr*>(&own)) : "";
}

/// Returns the local address towards the first target that has a route.
std::string first_source_address(const addrinfo* targets) {
  for (const addrinfo* target = targets; target != nullptr; target = target->ai_next)
    if (const std::string address = source_address(*target); !address.empty()) return address;
  return "";
}

/// Returns 0, or the error number of a connection attempt within the time limit.
int connection_error(const addrinfo& target, std::chrono::milliseconds timeout) {
  const int descriptor = ::socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return errno;
  int error = ::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd connected{descriptor, POLLOUT, 0};
    socklen_t length = sizeof error;
    if (::poll(&connected, 1, static_cast<int>(timeout.count())) <= 0)
      error = ETIMEDOUT;
    else if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
      error = errno;
  }
  ::close(descriptor);
  return error;
}

std::string first_interface_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET && (entry->ifa_flags & IFF_UP) != 0 &&
        (entry->ifa_flags & IFF_LOOPBACK) == 0)
      return numeric(entry->ifa_addr);
  return "";
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

std::string own_address(const std::string& host, std::int64_t port, Reach reach) {
  std::string problem;
  const AddressList targets = addresses_of(host, port, SOCK_DGRAM, problem);
  if (!targets)
    throw core::Error("cannot find the address of '" + host +
                      "', where rank 0 or the launcher keeps the store: " + problem)
        .hint("MASTER_ADDR must be a name or an address that every node knows");
  const std::string towards = first_source_address(targets.get());
  const bool must_search = reach == Reach::other_nodes && (towards.empty() || is_loopback(towards));
  const std::string address = must_search ? first_interface_address() : towards;
  if (!address.empty()) return address;
  if (reach == Reach::this_node) return "127.0.0.1";
  throw core::Error("no network interface of this machine is up, so the other nodes can't reach it")
      .hint("see `ip address`; distributed.network_interface names the one to use");
}

std::string wait_for_listener(const std::string& host, std::int64_t port, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause{50};
  // One address of a name may drop packets while the next address answers.
  constexpr std::chrono::milliseconds kLongest{2000};
  const Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    std::string problem;
    const AddressList targets = addresses_of(host, port, SOCK_STREAM, problem);
    for (const addrinfo* target = targets.get(); target != nullptr; target = target->ai_next) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      const int error = connection_error(*target, std::clamp(left, kPause, kLongest));
      if (error == 0) return "";
      problem = error == ECONNREFUSED ? "nothing listens there" : std::strerror(error);
    }
    if (Clock::now() + kPause > deadline) return problem;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace trainctl::comm

#include "comm/launch/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "core/error.h"

namespace trainctl::comm {
namespace {

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

/// Connecting a datagram socket sends nothing: it only chooses the route.
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

/// Towards the first of the targets that there is a route to.
std::string first_source_address(const addrinfo* targets) {
  for (const addrinfo* target = targets; target != nullptr; target = target->ai_next)
    if (const std::string address = source_address(*target); !address.empty()) return address;
  return "";
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
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    throw core::Error("cannot find the address of '" + host +
                      "', where rank 0 or the launcher keeps the store: " + ::gai_strerror(error))
        .hint("MASTER_ADDR must be a name or an address that every node knows");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const std::string towards = first_source_address(found);
  const bool must_search = reach == Reach::other_nodes && (towards.empty() || is_loopback(towards));
  const std::string address = must_search ? first_interface_address() : towards;
  if (!address.empty()) return address;
  if (reach == Reach::this_node) return "127.0.0.1";
  throw core::Error("no network interface of this machine is up, so the other nodes can't reach it")
      .hint("see `ip address`; distributed.interface names the one to use");
}

}  // namespace trainctl::comm

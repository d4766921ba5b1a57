#include "comm/rendezvous/store_connection.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <future>
#include <random>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/backend/c10d_group.h"
#include "comm/launch/address.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kArrivals = "arrivals";
constexpr std::chrono::milliseconds kLeastHandshake{
    500};  // least time for a handshake if the listener appeared at the deadline

std::string random_token() {
  std::random_device device;
  return std::to_string(device()) + "-" + std::to_string(device());
}

c10::intrusive_ptr<c10d::TCPStore> open(const Launch& launch, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (launch.listen_descriptor >= 0) options.masterListenFd = launch.listen_descriptor;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(launch.address, options);
    if (!launch.port_file.empty()) core::write_file_atomically(launch.port_file, std::to_string(store->getPort()));
    return store;
  } catch (const c10::Error& error) {
    throw core::Error("rank 0 cannot open the store at " + launch.address + " port " + std::to_string(launch.port) +
                      ": " + core::as_error(error).what())
        .hint("MASTER_PORT names a port that is free on rank 0's host, MASTER_ADDR that host");
  }
}

std::int64_t read_port(const std::string& file, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!std::filesystem::exists(file)) {
    if (Clock::now() > deadline)
      throw core::Error("rank 0 never came: no port was written to " + file + " within " + timeout_text(timeout))
          .hint("see rank 0's own message; mpirun -x MASTER_ADDR -x MASTER_PORT names another way");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (struct stat info{}; ::lstat(file.c_str(), &info) != 0 || info.st_uid != ::geteuid() || !S_ISREG(info.st_mode))
    throw core::Error(file +
                      ": wrong owner or type; expected a regular file of this user, to which rank 0 writes its port")
        .hint("have the file removed");
  const std::string text = core::read_file(file);
  std::int64_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc() || port < 1 || port > 65'535)
    throw core::Error(file + ": invalid port, got '" + text + "'; expected a number from 1 to 65535");
  return port;
}

using Store = c10::intrusive_ptr<c10d::Store>;

/// Opens a connection on a separate thread. The client's handshake has no timeout, so a listener that never answers,
/// such as a launcher's whose rank 0 has ended, would block it. After the timeout the thread is left behind.
Store open_within(std::chrono::milliseconds timeout, std::function<Store()> open) {
  auto result = std::make_shared<std::promise<Store>>();
  std::future<Store> store = result->get_future();
  std::thread([result, open = std::move(open)] {
    try {
      result->set_value(open());
    } catch (...) {
      result->set_exception(std::current_exception());
    }
  }).detach();
  // Longer than c10d's own timeout, so that c10d's message comes first.
  constexpr std::chrono::milliseconds kOwnLimit{500};
  if (store.wait_for(timeout + kOwnLimit) != std::future_status::ready)
    throw core::Error("the listener there doesn't answer as a store");
  return store.get();
}

Store connect(Launch launch, std::chrono::milliseconds timeout) {
  if (launch.port == 0) launch.port = read_port(launch.port_file, timeout);
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.port);
  options.waitWorkers = false;
  const std::string keeper = launch.store_is_served ? launch.launcher : "rank 0";
  const Clock::time_point deadline = Clock::now() + timeout;
  try {
    // c10d would log each attempt with a C++ backtrace.
    const std::string problem = wait_for_listener(launch.address, launch.port, timeout);
    if (!problem.empty()) throw core::Error(problem);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    options.timeout = std::max(left, kLeastHandshake);
    return open_within(options.timeout, [address = launch.address, options] {
      return Store(c10::make_intrusive<c10d::TCPStore>(address, options));
    });
  } catch (const std::exception& error) {
    throw core::Error("rank " + std::to_string(launch.rank) + " cannot reach the store that " + keeper + " keeps at " +
                      launch.address + " port " + std::to_string(launch.port) + " within " + timeout_text(timeout) +
                      ": " + core::as_error(error).what())
        .hint("does " + keeper + " run, and does a firewall let this port through?");
  }
}

}  // namespace

std::string timeout_text(std::chrono::milliseconds time) {
  return core::format_duration(std::chrono::duration<double>(time).count());
}

c10::intrusive_ptr<c10d::Store> StoreConnection::clone(const std::string& prefix_within) const {
  constexpr std::chrono::seconds kLongestHandshake{30};
  Store own = open_within(kLongestHandshake, [root = root] { return root->clone(); });
  return c10::make_intrusive<c10d::PrefixStore>(prefix + prefix_within, std::move(own));
}

Rendezvous::Rendezvous(const Launch& launch, std::chrono::milliseconds timeout)
    : launch_(launch), token_(random_token()) {
  const bool keeps_store = launch.rank == 0 && !launch.store_is_served;
  Store store = keeps_store ? Store(open(launch, timeout)) : connect(launch, timeout);
  if (launch.store_prefix.empty())
    connection_.root = std::move(store);
  else
    connection_.root = c10::make_intrusive<c10d::PrefixStore>(launch.store_prefix, std::move(store));
  if (launch_.rank == 0)
    connection_.prefix = token_;
  else
    greet();
}

const StoreConnection& Rendezvous::meet() {
  if (launch_.rank == 0)
    answer();
  else if (connection_.prefix.empty())
    listen();
  return connection_;
}

/// Registers this rank's arrival. Arrivals are numbered, so rank 0 queries the new arrivals rather than every rank. A
/// restarted rank arrives again with another token.
void Rendezvous::greet() {
  const std::int64_t arrival = connection_.root->add(kArrivals, 1);
  connection_.root->set("hello/" + std::to_string(arrival), std::to_string(launch_.rank) + " " + token_);
}

void Rendezvous::answer() {
  for (const std::int64_t all = connection_.root->add(kArrivals, 0); arrivals_ < all;) unanswered_.insert(++arrivals_);
  for (auto arrival = unanswered_.begin(); arrival != unanswered_.end();) {
    const std::string key = "hello/" + std::to_string(*arrival);
    if (!connection_.root->check({key})) {
      ++arrival;
      continue;
    }
    std::istringstream greeting(connection_.root->get_to_str(key));
    std::string rank, token;
    greeting >> rank >> token;
    connection_.root->set("welcome/" + rank, token + " " + connection_.prefix);
    arrival = unanswered_.erase(arrival);
  }
}

void Rendezvous::listen() {
  const std::string key = "welcome/" + std::to_string(launch_.rank);
  if (!connection_.root->check({key})) return;
  const std::string answer = connection_.root->get_to_str(key);
  if (answer.starts_with(token_ + " ")) connection_.prefix = answer.substr(token_.size() + 1);
}

}  // namespace trainctl::comm

#include "cluster/store_connection.h"

#include <filesystem>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "cluster/c10d_group.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;

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
    if (!launch.port_file.empty()) write_file_atomically(launch.port_file, std::to_string(store->getPort()));
    return store;
  } catch (const c10::Error& error) {
    throw Error("rank 0 cannot open the store at " + launch.address + " port " + std::to_string(launch.port) + ": " +
                message_of(error))
        .hint("MASTER_PORT names a port that is free on rank 0's host, MASTER_ADDR that host");
  }
}

std::int64_t read_port(const std::string& file, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!std::filesystem::exists(file)) {
    if (Clock::now() > deadline)
      throw Error("rank 0 never came: it left no port in " + file + " within " + patience_text(timeout))
          .hint("see rank 0's own message; mpirun -x MASTER_ADDR -x MASTER_PORT names another way");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return std::stoll(read_file(file));
}

c10::intrusive_ptr<c10d::TCPStore> connect(Launch launch, std::chrono::milliseconds timeout) {
  if (launch.port == 0) launch.port = read_port(launch.port_file, timeout);
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.port);
  options.timeout = timeout;
  options.waitWorkers = false;
  const std::string keeper = launch.store_is_served ? launch.launcher : "rank 0";
  try {
    return c10::make_intrusive<c10d::TCPStore>(launch.address, options);
  } catch (const c10::Error& error) {
    throw Error("rank " + std::to_string(launch.rank) + " cannot reach the store that " + keeper + " keeps at " +
                launch.address + " port " + std::to_string(launch.port) + " within " + patience_text(timeout) + ": " +
                message_of(error))
        .hint("does " + keeper + " run, and does a firewall let this port through?");
  }
}

}  // namespace

std::string patience_text(std::chrono::milliseconds time) {
  return format_duration(std::chrono::duration<double>(time).count());
}

c10::intrusive_ptr<c10d::Store> StoreConnection::clone(const std::string& prefix_within) const {
  return c10::make_intrusive<c10d::PrefixStore>(prefix + prefix_within, root->clone());
}

StoreMeeting::StoreMeeting(const Launch& launch, std::chrono::milliseconds timeout)
    : launch_(launch), token_(random_token()), answered_(static_cast<std::size_t>(launch.world_size)) {
  const bool keeps_store = launch.rank == 0 && !launch.store_is_served;
  c10::intrusive_ptr<c10d::Store> store = keeps_store ? open(launch, timeout) : connect(launch, timeout);
  if (launch.store_prefix.empty())
    connection_.root = std::move(store);
  else
    connection_.root = c10::make_intrusive<c10d::PrefixStore>(launch.store_prefix, std::move(store));
  if (launch_.rank == 0)
    connection_.prefix = token_;
  else
    connection_.root->set("hello/" + std::to_string(launch_.rank), token_);
}

const StoreConnection& StoreMeeting::meet() {
  if (launch_.rank == 0)
    answer();
  else if (connection_.prefix.empty())
    listen();
  return connection_;
}

/// A rank that greets with another token than before has been started anew.
void StoreMeeting::answer() {
  for (std::int64_t rank = 1; rank < launch_.world_size; ++rank) {
    const std::string suffix = std::to_string(rank);
    if (!connection_.root->check({"hello/" + suffix})) continue;
    const std::string token = connection_.root->get_to_str("hello/" + suffix);
    if (token == answered_[static_cast<std::size_t>(rank)]) continue;
    connection_.root->set("welcome/" + suffix, token + " " + connection_.prefix);
    answered_[static_cast<std::size_t>(rank)] = token;
  }
}

void StoreMeeting::listen() {
  const std::string key = "welcome/" + std::to_string(launch_.rank);
  if (!connection_.root->check({key})) return;
  const std::string answer = connection_.root->get_to_str(key);
  if (answer.starts_with(token_ + " ")) connection_.prefix = answer.substr(token_.size() + 1);
}

}  // namespace trainctl

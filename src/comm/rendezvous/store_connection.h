// The key-value store by which the ranks of a job find each other: c10d's TCPStore, kept by rank 0 or by the launcher.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/launch/launch.h"

namespace trainctl::comm {

/// How long was waited for a rank or the store: "10.0 min".
std::string timeout_text(std::chrono::milliseconds time);

/// A connection to the part of the store that only this start of the job uses. A launcher's store may still hold values
/// of the job's earlier start.
struct StoreConnection {
  c10::intrusive_ptr<c10d::Store> root;  // on rank 0 it is the store itself, where the launcher doesn't serve it
  std::string prefix;

  /// One more connection, for a thread or a group of its own.
  c10::intrusive_ptr<c10d::Store> clone(const std::string& prefix_within = "") const;
  bool is_open() const { return !prefix.empty(); }
};

class Rendezvous {
 public:
  /// Connects; rank 0 opens the store first.
  Rendezvous(const Launch& launch, std::chrono::milliseconds timeout);
  /// Call again until it is open. Rank 0 answers those who came since, and goes on doing so while it waits for others.
  const StoreConnection& meet();

 private:
  void greet();
  void answer();
  void listen();

  Launch launch_;
  StoreConnection connection_;
  std::string token_;
  std::int64_t arrivals_ = 0;          // rank 0: those that were seen
  std::set<std::int64_t> unanswered_;  // rank 0: of them, those whose greeting isn't there yet
};

}  // namespace trainctl::comm

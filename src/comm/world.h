// The processes of one job: their groups, and what they tell each other when one fails.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/config.h"
#include "comm/failure.h"
#include "comm/group.h"
#include "comm/launch/launch.h"

namespace trainctl::comm {

struct WorldOptions {
  Launch launch;
  c10::Device device = c10::kCPU;
  Backend backend = Backend::auto_;
  std::chrono::milliseconds timeout{600'000};
  std::string interface;  // the network interface; empty: that by which the store is reached
};

class World {
 public:
  virtual ~World() = default;
  virtual const Launch& launch() const = 0;
  /// Of all ranks.
  virtual Group& group() = 0;

  /// Throws on every rank where the ranks don't hold the same values: names the key, and the ranks and hosts that
  /// differ from rank 0. "config", "version", "data".
  virtual void agree(const std::map<std::string, std::string>& values) = 0;
  /// Rank 0's value, on every rank. Throws where rank 0 fails instead of coming.
  virtual std::string share(const std::string& value) = 0;
  /// Where this rank stands, for the reports of others.
  virtual void set_step(std::int64_t step) = 0;
  /// Tells the other ranks what this rank does since it made `step`; holds until it makes another. On any thread.
  virtual void tell_doing(const std::string& doing, std::int64_t step) noexcept = 0;
  /// Returns which ranks that make no step differ from the rest, and how, on any thread. Waits up to five seconds for
  /// all of them to tell what they do; "" where nobody can be asked (rank 0 may have ended, with its store), or once
  /// this rank has made a step after `step`.
  virtual std::string compare_hang(std::int64_t step) noexcept = 0;
  /// Tells everyone, the first time; never throws and never waits long.
  virtual void report(const std::string& message) noexcept = 0;
  /// What everyone should end with, once this rank failed with `message`: the first failing rank's failure where that
  /// was another (a peer that is gone without a word, or hangs, is named as such), else `message` itself. Takes up to a
  /// second; rank 0 stays until the others know, as they may depend on its store.
  virtual Failure verdict(const std::string& message) = 0;
  /// This rank's last collectives, a line each.
  virtual std::string collectives() const = 0;
  /// The processes that started the ranks, where they start them again when one fails or the nodes change; else empty.
  /// A job that goes on shares at least one of them with its earlier start.
  virtual std::vector<std::string> launchers() const = 0;
};

/// Waits for all ranks until the timeout; says which never came.
std::unique_ptr<World> join(const WorldOptions& options);

/// Members as threads of this process, each with a Group of its own (for replicas in one process, and for tests).
std::vector<std::unique_ptr<Group>> thread_groups(std::int64_t num_members, std::chrono::milliseconds timeout);

}  // namespace trainctl::comm

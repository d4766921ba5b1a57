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
  /// Returns the group of all ranks.
  virtual Group& group() = 0;

  /// Throws on every rank where the ranks don't hold the same values: names the key, and the ranks and hosts that
  /// differ from rank 0.
  virtual void check_consistent(const std::map<std::string, std::string>& values) = 0;
  /// Rank 0's value, on every rank. Throws where rank 0 fails instead of coming.
  virtual std::string broadcast_text(const std::string& value) = 0;
  /// Where this rank stands, for the reports of others.
  virtual void set_step(std::int64_t step) = 0;
  /// Tells the other ranks what this rank does since it made `step`; holds until it makes another. On any thread.
  virtual void tell_doing(const std::string& doing, std::int64_t step) noexcept = 0;
  /// Returns a text about the ranks that differ from the rest while no rank makes a step. Waits up to five seconds
  /// until all running ranks have told what they do. Returns "" if the store doesn't answer (rank 0 may have ended with
  /// it), or once this rank makes a step after `step`. Any thread may call it.
  virtual std::string diagnose_stall(std::int64_t step) noexcept = 0;
  /// Tells everyone, the first time; never throws and never waits long.
  virtual void report(const std::string& message) noexcept = 0;
  /// Returns the failure with which every rank should end, once this rank failed with `message`. It is the failure of
  /// the first rank that failed, or `message` if this rank was first. It says so if another rank's process has ended
  /// without a report, or hangs. Takes up to a second. Rank 0 then waits up to two seconds for the other ranks to read
  /// the failure, because they may need its store.
  virtual Failure root_cause(const std::string& message) = 0;
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

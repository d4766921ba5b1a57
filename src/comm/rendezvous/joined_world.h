// The ranks of a job that have met.
#pragma once

#include <mutex>

#include "comm/backend/backends.h"
#include "comm/health/heartbeat_monitor.h"
#include "comm/rendezvous/store_connection.h"
#include "comm/world.h"

namespace trainctl::comm {

class JoinedWorld final : public World {
 public:
  explicit JoinedWorld(const WorldOptions& options);
  JoinedWorld(const JoinedWorld&) = delete;
  JoinedWorld& operator=(const JoinedWorld&) = delete;
  ~JoinedWorld() override;

  const Launch& launch() const override { return options_.launch; }
  Group& group() override { return *group_; }
  void check_consistent(const std::map<std::string, std::string>& values) override;
  std::string broadcast_text(const std::string& value) override;
  void set_step(std::int64_t step) override { journal_->set_step(step); }
  void tell_doing(const std::string& doing, std::int64_t step) noexcept override { monitor_->set_doing(doing, step); }
  std::string diagnose_stall(std::int64_t step) noexcept override;
  void report(const std::string& message) noexcept override;
  Failure root_cause(const std::string& message) override;
  std::string collectives() const override { return journal_->text(); }
  std::vector<std::string> launchers() const override;

 private:
  std::int64_t rank() const { return options_.launch.rank; }
  bool keeps_store() const { return rank() == 0 && !options_.launch.store_is_served; }
  /// Returns a failure of this rank with `message`, its step, and its host as the other ranks know it.
  Failure own_failure(const std::string& message) const;
  void wait_for_all(Rendezvous& meeting);
  std::vector<std::string> missing_ranks();
  std::unique_ptr<Group> make_group(const std::string& name, const std::vector<std::int64_t>& members);
  std::vector<std::int64_t> nodes_of(const std::vector<std::int64_t>& members) const;
  /// The value that another rank sets; throws where a rank has failed or gone.
  std::string await(const std::string& key, const std::string& what);
  bool has_collective_failed() const;
  Evidence gather(const std::string& message);
  Failure find_first(const std::string& message);
  /// Kills the process of the rank that the root cause names, if it is on this machine and silent. Silent means no sign
  /// of life for three quarters of the timeout, and at least 1 s. Its launcher would ask it to end, wait half a minute,
  /// and only then start the job again.
  void end_hung();
  /// The condition until which this rank stays, because other ranks may need the store that it keeps.
  enum class Linger { until_all_know, until_all_ended };
  void linger(Linger until, std::chrono::milliseconds limit);
  void shut_down_gpu_backends();
  /// On a GPU nothing else ends a collective that a peer never comes to: its host thread doesn't wait there. On a CPU
  /// it is what a rank that is gone leaves behind.
  void end_overdue_collectives();
  void abort_gpu_collectives();

  WorldOptions options_;
  std::shared_ptr<FlightRecorder> journal_ = std::make_shared<FlightRecorder>();
  StoreConnection connection_;
  std::unique_ptr<HeartbeatMonitor> monitor_;
  std::vector<RankStatus> members_;  // as they joined
  std::string address_;
  std::int64_t num_shared_ = 0;
  std::int64_t num_agreed_ = 0;
  bool has_reported_ = false;
  std::optional<Failure> root_cause_;
  std::vector<std::int64_t> gone_;                  // as of the root cause
  std::map<std::string, std::int64_t> num_groups_;  // by name
  std::mutex backends_mutex_;
  std::vector<c10::weak_intrusive_ptr<c10d::Backend>> cpu_backends_;
  std::vector<c10::intrusive_ptr<c10d::Backend>> gpu_backends_;
  std::unique_ptr<Group> group_;
};

/// What keeps the ranks from working on one thing: which key differs, and on which ranks; "" where all is equal.
std::string disagreement(const std::vector<RankStatus>& ranks,
                         const std::vector<std::map<std::string, std::string>>& values);

}  // namespace trainctl::comm

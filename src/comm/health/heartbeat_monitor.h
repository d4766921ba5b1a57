// A thread that tells the store how this rank stands, ten times a second, and reads how the others do. It alone talks
// to the store once the ranks have met, so that nobody hangs where the store does.
#pragma once

#include <c10/util/Exception.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "comm/health/rank_status.h"
#include "core/clock.h"

namespace trainctl::comm {

/// The store didn't answer in time, or not at all.
struct StoreError {
  Evidence::Store state;
};

struct HeartbeatOptions {
  std::chrono::milliseconds answer_timeout{2000};  // how long the store may stay silent before ask() gives up
  core::Clock now = &core::steady_now;             // measures the other ranks' silence
};

class HeartbeatMonitor {
 public:
  /// `store`: a connection that nobody else uses. `self`: who this rank is.
  HeartbeatMonitor(c10::intrusive_ptr<c10d::Store> store, RankStatus self, std::int64_t world_size,
                   std::shared_ptr<FlightRecorder> journal, const HeartbeatOptions& options = {});
  HeartbeatMonitor(const HeartbeatMonitor&) = delete;
  HeartbeatMonitor& operator=(const HeartbeatMonitor&) = delete;
  /// Says goodbye. Where the store hangs, the thread is left behind.
  ~HeartbeatMonitor();

  /// Runs a few quick operations on the store; throws StoreError, or what they throw.
  template <class Operation>
  auto ask(Operation operation) {
    using Result = std::invoke_result_t<Operation, c10d::Store&>;
    auto task = std::make_shared<std::packaged_task<Result(c10d::Store&)>>(std::move(operation));
    std::future<Result> answer = task->get_future();
    // The queue alone holds it: the promise breaks, and nobody waits, where the thread ends without coming to it.
    post([task = std::move(task)](c10d::Store& store) { (*task)(store); });
    expect_answer(answer.wait_until(answer_deadline()) == std::future_status::ready);
    try {
      return answer.get();
    } catch (const c10::DistError&) {
      throw StoreError{Evidence::Store::lost};
    } catch (const std::future_error&) {  // the thread has ended before
      throw StoreError{Evidence::Store::lost};
    }
  }

  /// Asks the store, and returns the current status of all ranks; beat 0: the rank has not joined yet. Throws
  /// StoreError.
  std::vector<RankStatus> standings();
  /// Returns the status of all ranks that was last read from the store.
  std::vector<RankStatus> last_standings() const;
  /// Returns the other ranks of which the readings over more than `limit` show no sign of life. The limit is at least
  /// three periods between readings. Time in which this process was stopped counts as two periods at most.
  std::vector<std::int64_t> silent_for(std::chrono::milliseconds limit) const;
  std::optional<Failure> first_failure() const;
  /// Tells everyone unless another was told before; returns the one that was first.
  Failure report_failure(const Failure& failure);
  void set_status(RankStatus::Status status);
  /// Sets what the others read of this rank from its next sign of life on, until it has made a step after `step`.
  void set_doing(std::string doing, std::int64_t step);
  /// Called on the monitor's thread: when another rank has failed, once; and after every beat, also when the store is
  /// lost.
  struct Watchers {
    std::function<void()> on_failure;
    std::function<void()> on_beat;
  };
  /// Returns when none of the former watchers is running.
  void watch(Watchers watchers);

 private:
  using Clock = std::chrono::steady_clock;
  using Task = std::function<void(c10d::Store&)>;
  static constexpr std::chrono::milliseconds kBeat{100};
  static constexpr std::chrono::milliseconds kGoodbyeTimeout{2000};

  /// What the thread and its owner share; the thread may outlive the owner.
  struct Shared;

  void post(Task task);
  /// With a store that hasn't answered the thread for long already it is over soon.
  Clock::time_point answer_deadline() const;
  void expect_answer(bool came);

  std::chrono::milliseconds answer_timeout_;
  std::shared_ptr<Shared> shared_;
  std::future<void> ended_;
};

}  // namespace trainctl::comm

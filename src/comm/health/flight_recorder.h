// What this rank's collectives are doing: per group how far it is, those under way and the last ones that ended, for
// the report of a hang. Every thread may call it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communication_time.h"
#include "core/clock.h"

namespace trainctl::comm {

struct CollectiveEvent {
  enum class State { under_way, done, failed };

  std::string group;          // "all ranks", "node 0"
  std::int64_t sequence = 0;  // in its group, from 1
  std::string operation;
  std::int64_t bytes = 0;
  std::int64_t step = 0;
  State state = State::under_way;
  std::string error;
  core::TimePoint begin;
  core::TimePoint end;
};

/// "all_reduce #153 of all ranks (4.0 MiB)".
std::string describe(const CollectiveEvent& event);

class FlightRecorder {
 public:
  explicit FlightRecorder(core::Clock now = &core::steady_now) : now_(std::move(now)) {}

  void set_step(std::int64_t step);
  std::int64_t step() const;

  /// A collective begins; the ticket ends it, once.
  std::uint64_t begin(const std::string& group, const std::string& operation, std::int64_t bytes);
  void done(std::uint64_t ticket);
  /// By its peers' or the network's doing.
  void failed(std::uint64_t ticket, const std::string& error);

  std::optional<CollectiveEvent> first_failure() const;
  bool any_under_way() const;
  /// The last collective of each group.
  std::map<std::string, CollectiveEvent> last() const;
  /// Called with the reason, on that thread, if fail_overdue() fails this one before it has ended.
  void when_overdue(std::uint64_t ticket, std::function<void(const std::string&)> give_up);
  /// Fails those begun longer ago than `limit`, and not ended; whether there are any.
  bool fail_overdue(std::chrono::milliseconds limit, const std::string& reason = "timed out");
  /// Fails all that are under way: their buffers, and those of later ones, hold no result.
  void abort(const std::string& reason);
  bool is_aborted() const { return is_aborted_; }
  /// A thread has waited so long for a collective.
  void waited(core::TimePoint::duration duration);
  /// A thread has waited for the collective that began last, and for all before it, until now.
  void waited_since_last_begin();
  /// Since the last call.
  CommunicationTime take_time();
  /// Returns the collectives as lines of text, oldest first.
  std::string text() const;

 private:
  static constexpr std::size_t kNumEvents = 256;

  /// Returns null if the event is no longer kept.
  const CollectiveEvent* end(std::uint64_t ticket, CollectiveEvent::State state, const std::string& error = "");
  void count_ended(core::TimePoint now);
  void update_last(const CollectiveEvent& event);

  core::Clock now_;
  mutable std::mutex mutex_;
  std::atomic<bool> is_aborted_ = false;
  std::int64_t step_ = 0;
  std::uint64_t num_begun_ = 0;
  std::map<std::uint64_t, CollectiveEvent> events_;  // by ticket; more than kNumEvents only if so many are under way
  std::map<std::string, CollectiveEvent> last_;
  std::optional<CollectiveEvent> first_failure_;
  std::map<std::uint64_t, std::function<void(const std::string&)>> when_overdue_;  // of those under way

  std::int64_t num_under_way_ = 0;
  core::TimePoint busy_since_;  // while any is under way
  core::TimePoint last_begin_;
  core::TimePoint::duration busy_{};
  core::TimePoint::duration waited_{};
};

}  // namespace trainctl::comm

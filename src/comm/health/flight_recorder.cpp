#include "comm/health/flight_recorder.h"

#include <algorithm>
#include <utility>

#include "core/text.h"

namespace trainctl::comm {
namespace {

double seconds(core::TimePoint::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double milliseconds(core::TimePoint::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

std::string describe(const CollectiveEvent& event) {
  std::string text = event.operation + " #" + std::to_string(event.sequence) + " of " + event.group;
  return event.bytes == 0 ? text : text + " (" + core::format_bytes(static_cast<double>(event.bytes)) + ")";
}

void FlightRecorder::set_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

std::int64_t FlightRecorder::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

std::uint64_t FlightRecorder::begin(const std::string& group, const std::string& operation, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  CollectiveEvent& last = last_[group];
  last = {.group = group,
          .sequence = last.sequence + 1,
          .operation = operation,
          .bytes = bytes,
          .step = step_,
          .begin = now_()};
  if (num_under_way_++ == 0) busy_since_ = last.begin;
  last_begin_ = last.begin;
  if (events_.size() >= kNumEvents) {
    const auto oldest_ended = std::find_if(events_.begin(), events_.end(), [](const auto& event) {
      return event.second.state != CollectiveEvent::State::under_way;
    });
    if (oldest_ended != events_.end()) events_.erase(oldest_ended);
  }
  const std::uint64_t ticket = num_begun_++;
  events_.emplace_hint(events_.end(), ticket, last);
  return ticket;
}

void FlightRecorder::count_ended(core::TimePoint now) {
  if (num_under_way_ > 0 && --num_under_way_ == 0) busy_ += now - busy_since_;
}

void FlightRecorder::waited(core::TimePoint::duration duration) {
  const std::lock_guard lock(mutex_);
  waited_ += duration;
}

void FlightRecorder::waited_since_last_begin() {
  const std::lock_guard lock(mutex_);
  waited_ += now_() - last_begin_;
}

CommunicationTime FlightRecorder::take_time() {
  const std::lock_guard lock(mutex_);
  const core::TimePoint now = now_();
  if (num_under_way_ > 0) {
    busy_ += now - busy_since_;
    busy_since_ = now;
  }
  return {.busy_ms = milliseconds(std::exchange(busy_, {})), .exposed_ms = milliseconds(std::exchange(waited_, {}))};
}

void FlightRecorder::done(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  end(ticket, CollectiveEvent::State::done);
}

void FlightRecorder::failed(std::uint64_t ticket, const std::string& error) {
  const std::lock_guard lock(mutex_);
  const CollectiveEvent* const event = end(ticket, CollectiveEvent::State::failed, error);
  if (event != nullptr && !first_failure_) first_failure_ = *event;
}

const CollectiveEvent* FlightRecorder::end(std::uint64_t ticket, CollectiveEvent::State state,
                                           const std::string& error) {
  when_overdue_.erase(ticket);
  const core::TimePoint now = now_();
  count_ended(now);
  const auto found = events_.find(ticket);
  if (found == events_.end()) return nullptr;
  CollectiveEvent& event = found->second;
  // NCCL marks collectives that were aborted as done.
  if (event.state == CollectiveEvent::State::failed) return &event;
  event.state = state;
  event.end = now;
  event.error = error;
  update_last(event);
  return &event;
}

void FlightRecorder::update_last(const CollectiveEvent& event) {
  if (CollectiveEvent& last = last_[event.group]; last.sequence == event.sequence) last = event;
}

std::optional<CollectiveEvent> FlightRecorder::first_failure() const {
  const std::lock_guard lock(mutex_);
  return first_failure_;
}

bool FlightRecorder::any_under_way() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(events_.begin(), events_.end(),
                     [](const auto& event) { return event.second.state == CollectiveEvent::State::under_way; });
}

std::map<std::string, CollectiveEvent> FlightRecorder::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void FlightRecorder::when_overdue(std::uint64_t ticket, std::function<void(const std::string&)> give_up) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(ticket);
  if (found != events_.end() && found->second.state == CollectiveEvent::State::under_way)
    when_overdue_[ticket] = std::move(give_up);
}

bool FlightRecorder::fail_overdue(std::chrono::milliseconds limit, const std::string& reason) {
  std::vector<std::pair<std::function<void(const std::string&)>, std::string>> given_up;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    const core::TimePoint now = now_();
    for (auto& [ticket, event] : events_) {
      if (event.state != CollectiveEvent::State::under_way || now - event.begin <= limit) continue;
      event.state = CollectiveEvent::State::failed;
      event.end = now;
      event.error = reason + " after " + core::format_duration(seconds(now - event.begin));
      update_last(event);
      if (!first_failure_ || first_failure_->begin > event.begin) first_failure_ = event;
      any = true;
      if (auto found = when_overdue_.extract(ticket)) given_up.emplace_back(std::move(found.mapped()), event.error);
    }
  }
  for (const auto& [give_up, error] : given_up) give_up(error);
  return any;
}

void FlightRecorder::abort(const std::string& reason) {
  is_aborted_ = true;
  fail_overdue(std::chrono::milliseconds(-1), reason);
}

std::string FlightRecorder::text() const {
  const std::lock_guard lock(mutex_);
  const core::TimePoint now = now_();
  std::string lines;
  for (const auto& [ticket, event] : events_) {
    const bool ended = event.state != CollectiveEvent::State::under_way;
    lines += "step " + std::to_string(event.step) + ": " + describe(event) + ", " +
             core::format_duration(seconds(now - event.begin)) + " ago, " +
             (event.state == CollectiveEvent::State::done ? "took "
              : ended                                     ? "failed after "
                                                          : "under way for ") +
             core::format_duration(seconds((ended ? event.end : now) - event.begin)) +
             (event.error.empty() ? "" : ": " + event.error) + "\n";
  }
  return lines;
}

}  // namespace trainctl::comm

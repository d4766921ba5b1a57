#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "tracking/tracking.h"

namespace trainctl::tracking {
namespace {

/// Returns the sink's error, or nothing if it took the event.
std::optional<std::string> offer(Sink& sink, const Event& event) {
  try {
    sink.on(event);
    return std::nullopt;
  } catch (const std::exception& error) {
    return core::as_error(error).what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

void Tracker::add(std::unique_ptr<Sink> sink) {
  const std::lock_guard lock(mutex_);
  members_.push_back({.sink = std::move(sink)});
}

void Tracker::on(const Event& event) {
  const std::lock_guard lock(mutex_);
  std::vector<Event> events{event};
  // The loop ends, since each sink adds at most one notice.
  for (std::size_t i = 0; i < events.size(); ++i)
    for (Member& member : members_) {
      const auto complaint = offer(*member.sink, events[i]);
      if (!complaint || std::exchange(member.has_failed, true)) continue;
      events.emplace_back(Notice{Level::warning, *complaint + "; training goes on, and tries that again"});
    }
}

}  // namespace trainctl::tracking

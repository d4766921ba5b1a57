#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "tracking/append_file.h"
#include "tracking/tracking.h"

namespace trainctl::tracking {
namespace {

/// An error of a sink.
struct Complaint {
  std::string text;
  bool is_loss = false;  // nothing is tried again
};

/// Returns the sink's error, or nothing if it took the event.
std::optional<Complaint> offer(Sink& sink, const Event& event) {
  try {
    sink.on(event);
    return std::nullopt;
  } catch (const LostRecords& error) {
    return Complaint{.text = error.what(), .is_loss = true};
  } catch (const std::exception& error) {
    return Complaint{.text = core::as_error(error).what()};
  } catch (...) {
    return Complaint{.text = "unknown error"};
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
  // The loop ends, since each sink adds at most one notice, and one of each loss.
  for (std::size_t i = 0; i < events.size(); ++i)
    for (Member& member : members_) {
      const auto complaint = offer(*member.sink, events[i]);
      if (!complaint) continue;
      if (complaint->is_loss)
        events.emplace_back(Notice{Level::warning, complaint->text});
      else if (!std::exchange(member.has_failed, true))
        events.emplace_back(Notice{Level::warning, complaint->text + "; training goes on, and tries that again"});
    }
}

}  // namespace trainctl::tracking

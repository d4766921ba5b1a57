#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "tracking/tracking.h"

namespace trainctl {
namespace {

/// The sink's complaint, or nothing when it took the event.
std::optional<std::string> offer(Sink& sink, const Event& event) {
  try {
    sink.on(event);
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown error";
  }
}

/// Sinks that fail are dropped; `notices` gets why.
void offer_all(std::vector<std::unique_ptr<Sink>>& sinks, const Event& event, std::vector<Notice>& notices) {
  for (auto sink = sinks.begin(); sink != sinks.end();) {
    if (const auto complaint = offer(**sink, event)) {
      notices.push_back({Level::warning, *complaint + "; nothing more is recorded there"});
      sink = sinks.erase(sink);
    } else {
      ++sink;
    }
  }
}

}  // namespace

void Tracker::add(std::unique_ptr<Sink> sink) {
  const std::lock_guard lock(mutex_);
  sinks_.push_back(std::move(sink));
}

void Tracker::on(const Event& event) {
  const std::lock_guard lock(mutex_);
  std::vector<Notice> notices;
  offer_all(sinks_, event, notices);
  // Each notice comes from a sink that is gone, so this ends.
  for (std::size_t told = 0; told < notices.size(); ++told) offer_all(sinks_, Event(notices[told]), notices);
}

}  // namespace trainctl

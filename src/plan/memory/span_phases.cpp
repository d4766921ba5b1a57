#include "plan/memory/span_phases.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

namespace trainctl::plan {
namespace {

/// The tracker of this thread. Callbacks are functions, not objects, and find the tracker here.
thread_local MemoryTracker* watched = nullptr;

struct Outer final : at::ObserverContext {
  explicit Outer(std::string name) : phase(std::move(name)) {}
  std::string phase;
};

/// Returns whether a span is a phase of a step: layers open spans too.
bool is_phase(std::string_view name) {
  static constexpr std::string_view kPhases[] = {"data", "forward",   "backward", "recompute",
                                                 "clip", "optimizer", "ema"};
  return std::find(std::begin(kPhases), std::end(kPhases), name) != std::end(kPhases);
}

std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction& span) {
  if (watched == nullptr || !is_phase(span.name())) return nullptr;
  auto outer = std::make_unique<Outer>(watched->phase());
  watched->enter_phase(span.name());
  return outer;
}

void ends(const at::RecordFunction&, at::ObserverContext* context) {
  if (watched != nullptr && context != nullptr) watched->enter_phase(static_cast<Outer*>(context)->phase);
}

}  // namespace

SpanPhases::SpanPhases(MemoryTracker& log)
    : callback_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&begins, &ends).scopes({at::RecordScope::USER_SCOPE}))) {
  watched = &log;
}

SpanPhases::~SpanPhases() {
  at::removeCallback(callback_);
  watched = nullptr;
}

}  // namespace trainctl::plan

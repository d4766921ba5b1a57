#include "profiler/record/span_watch.h"

#include <ATen/SequenceNumber.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <string_view>

#include "core/error.h"

namespace trainctl::profiler {
namespace {

constexpr std::size_t kMaxSamples = 20'000;

/// Returns the watch that LibTorch's callback serves, since the callback has no argument of ours.
std::atomic<SpanWatch*>& current() {
  static std::atomic<SpanWatch*> watch = nullptr;
  return watch;
}

bool begins_update(std::string_view span) {
  return span == "unscale" || span == "clip" || span == "optimizer";
}

}  // namespace

SpanWatch::SpanWatch(SpanWatchOptions options) : options_(std::move(options)) {
  SpanWatch* none = nullptr;
  core::ensure(current().compare_exchange_strong(none, this), "spans are watched by one at a time");
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&begins, &ends).needsIds(true).scopes({at::RecordScope::USER_SCOPE}));
}

SpanWatch::~SpanWatch() {
  at::removeCallback(callback_);
  current() = nullptr;
}

std::unique_ptr<at::ObserverContext> SpanWatch::begins(const at::RecordFunction& span) {
  if (SpanWatch* watch = current()) watch->note_begin(span);
  return nullptr;
}

void SpanWatch::ends(const at::RecordFunction& span, at::ObserverContext*) {
  if (SpanWatch* watch = current()) watch->note_end(span);
}

void SpanWatch::note_begin(const at::RecordFunction& span) {
  const std::int64_t now = c10::getTime();
  const std::lock_guard lock(mutex_);
  nodes_[span.handle()] = {.thread = at::RecordFunction::currentThreadId(),
                           .first = static_cast<std::int64_t>(at::sequence_number::peek()),
                           .end = std::numeric_limits<std::int64_t>::max()};
  const std::string_view name = span.name();
  if (name.starts_with(kStepSpan)) gradients_wanted_ = true;
  if (gradients_wanted_ && begins_update(name) && options_.gradients) {
    gradients_wanted_ = false;
    gradients_.push_back({.ns = now, .addresses = options_.gradients()});
  }
  sample(now);
}

void SpanWatch::note_end(const at::RecordFunction& span) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(span.handle());
  if (found != nodes_.end()) found->second.end = static_cast<std::int64_t>(at::sequence_number::peek());
  sample(c10::getTime());
}

void SpanWatch::sample(std::int64_t now) {
  if (!options_.free_space || free_space_.size() >= kMaxSamples) return;
  if (!free_space_.empty() && now - free_space_.back().ns < options_.free_space_every_ns) return;
  free_space_.push_back({.ns = now, .space = options_.free_space()});
}

}  // namespace trainctl::profiler

#include "runtime/span_log.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "core/text.h"

namespace trainctl::runtime {
namespace {

using Clock = std::chrono::steady_clock;
// LibTorch's lite interpreter uses this slot; in this process it is free.
constexpr c10::DebugInfoKind kSlot = c10::DebugInfoKind::MOBILE_RUNTIME_INFO;
constexpr std::size_t kNumEnded = 64;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class Log final : public c10::DebugInfoBase {
 public:
  /// Opens a span and returns its number.
  std::uint64_t begin(const char* name) {
    const std::lock_guard lock(mutex_);
    open_.push_back({name, Clock::now(), num_begun_});
    return num_begun_++;
  }

  /// Closes the span. It may not be the innermost: a collective's span ends on another thread.
  void end(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto span =
        std::find_if(open_.rbegin(), open_.rend(), [&](const Opened& opened) { return opened.number == number; });
    if (span == open_.rend()) return;
    const Clock::time_point now = Clock::now();
    Ended ending{std::move(span->name), seconds_between(span->begin, now), now};
    open_.erase(std::next(span).base());
    if (ended_.size() < kNumEnded)
      ended_.push_back(std::move(ending));
    else
      ended_[num_ended_ % kNumEnded] = std::move(ending);
    ++num_ended_;
  }

  std::optional<SpanLog::Open> innermost() const {
    const std::lock_guard lock(mutex_);
    if (open_.empty()) return std::nullopt;
    return SpanLog::Open{open_.back().name, seconds_between(open_.back().begin, Clock::now())};
  }

  std::string text() const {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    std::string lines = open_.empty() ? "in no span\n" : "";
    for (const Opened& span : open_)
      lines += "in " + span.name + " for " + core::format_duration(seconds_between(span.begin, now)) + "\n";
    const std::size_t first = num_ended_ > ended_.size() ? num_ended_ - ended_.size() : 0;
    for (std::size_t i = first; i < num_ended_; ++i) {
      const Ended& span = ended_[i % kNumEnded];
      lines += span.name + " took " + core::format_duration(span.seconds) + ", ended " +
               core::format_duration(seconds_between(span.end, now)) + " ago\n";
    }
    return lines;
  }

 private:
  struct Opened {
    std::string name;
    Clock::time_point begin;
    std::uint64_t number;
  };
  struct Ended {
    std::string name;
    double seconds = 0;
    Clock::time_point end;
  };

  mutable std::mutex mutex_;
  std::uint64_t num_begun_ = 0;
  std::vector<Opened> open_;  // outermost first
  std::vector<Ended> ended_;  // number t at t % kNumEnded
  std::size_t num_ended_ = 0;
};

Log* current_log() {
  return static_cast<Log*>(c10::ThreadLocalDebugInfo::get(kSlot));
}

struct Number final : at::ObserverContext {
  explicit Number(std::uint64_t number) : value(number) {}
  std::uint64_t value;
};

std::unique_ptr<at::ObserverContext> span_begins(const at::RecordFunction& span) {
  Log* const log = current_log();
  return log == nullptr ? nullptr : std::make_unique<Number>(log->begin(span.name()));
}

void span_ends(const at::RecordFunction&, at::ObserverContext* context) {
  if (Log* log = current_log(); log != nullptr && context != nullptr) log->end(static_cast<Number*>(context)->value);
}

}  // namespace

struct SpanLog::Listening {
  std::shared_ptr<Log> log = std::make_shared<Log>();
  c10::DebugInfoGuard slot{kSlot, log};
  at::CallbackHandle callback = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&span_begins, &span_ends).scopes({at::RecordScope::USER_SCOPE}));
};

SpanLog::SpanLog() : listening_(std::make_unique<Listening>()) {}

SpanLog::~SpanLog() {
  at::removeCallback(listening_->callback);
}

std::optional<SpanLog::Open> SpanLog::innermost() const {
  return listening_->log->innermost();
}

std::string SpanLog::text() const {
  return listening_->log->text();
}

}  // namespace trainctl::runtime

#include "runtime/span_log.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "core/text.h"

namespace trainctl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr c10::DebugInfoKind kSlot = c10::DebugInfoKind::MOBILE_RUNTIME_INFO;  // of the lite interpreter, not
                                                                               // here
constexpr std::size_t kNumEnded = 64;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

class Log final : public c10::DebugInfoBase {
 public:
  void begin(const char* name) {
    const std::lock_guard lock(mutex_);
    open_.push_back({name, Clock::now()});
  }

  void end() {
    const std::lock_guard lock(mutex_);
    if (open_.empty()) return;  // it began before the log
    const Clock::time_point now = Clock::now();
    Ended ending{std::move(open_.back().name), seconds_between(open_.back().begin, now), now};
    open_.pop_back();
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
      lines += "in " + span.name + " for " + format_duration(seconds_between(span.begin, now)) + "\n";
    const std::size_t first = num_ended_ > ended_.size() ? num_ended_ - ended_.size() : 0;
    for (std::size_t i = first; i < num_ended_; ++i) {
      const Ended& span = ended_[i % kNumEnded];
      lines += span.name + " took " + format_duration(span.seconds) + ", ended " +
               format_duration(seconds_between(span.end, now)) + " ago\n";
    }
    return lines;
  }

 private:
  struct Opened {
    std::string name;
    Clock::time_point begin;
  };
  struct Ended {
    std::string name;
    double seconds = 0;
    Clock::time_point end;
  };

  mutable std::mutex mutex_;
  std::vector<Opened> open_;  // outermost first
  std::vector<Ended> ended_;  // number t at t % kNumEnded
  std::size_t num_ended_ = 0;
};

Log* current_log() {
  return static_cast<Log*>(c10::ThreadLocalDebugInfo::get(kSlot));
}

std::unique_ptr<at::ObserverContext> span_begins(const at::RecordFunction& span) {
  if (Log* log = current_log()) log->begin(span.name());
  return nullptr;
}

void span_ends(const at::RecordFunction&, at::ObserverContext*) {
  if (Log* log = current_log()) log->end();
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

}  // namespace trainctl

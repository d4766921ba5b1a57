#include "train/monitor/watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/median.h"
#include "core/text.h"
#include "runtime/stacks.h"

namespace trainctl::train {
namespace {

constexpr std::size_t kNumSteps = 64;  // whose median counts
constexpr std::size_t kNumFirst = 3;   // steps that may take long: memory is touched first, kernels are chosen
constexpr double kFirstSteps = 10;     // times min_timeout_s for them
constexpr double kLooksPerLimit = 10;

/// Returns "it is in data, and has" of "it is in data for 31 s, and has", so that texts differ only by news.
std::string without_times(std::string text) {
  for (std::size_t at = 0; (at = text.find(" for ", at)) != std::string::npos;)
    text.erase(at, std::min(text.find_first_of(",;", at), text.size()) - at);
  return text;
}

double usual(const std::vector<double>& seconds) {
  return seconds.empty() ? 0 : core::median(seconds);
}

}  // namespace

Watchdog::Watchdog(const WatchdogConfig& config, WatchdogOptions options)
    : config_(config), options_(std::move(options)) {
  if (config_.step_multiple > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::step_done(std::int64_t step) {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    const core::TimePoint now = options_.now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    step_ = step;
    if (std::exchange(reported_after_s_, 0) > 0)
      line =
          "step " + core::format_count(step) + " is done after " + core::format_duration(seconds) + ": the run goes on";
    else if (seconds_.size() < kNumSteps)
      seconds_.push_back(seconds);
    else
      seconds_[num_steps_ % kNumSteps] = seconds;
    ++num_steps_;
  }
  if (!line.empty() && options_.tell) options_.tell(line);
}

Watchdog::Pause::Pause(std::optional<Watchdog>& watch) : watch_(watch ? &*watch : nullptr) {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  ++watch_->num_pauses_;
}

Watchdog::Pause::~Pause() {
  if (watch_ == nullptr) return;
  const std::lock_guard lock(watch_->mutex_);
  --watch_->num_pauses_;
  watch_->last_ = watch_->options_.now();
}

/// Returns the time limit of a step. The caller holds the mutex.
double Watchdog::limit_s() const {
  const double least = config_.min_timeout_s * (num_steps_ < kNumFirst ? kFirstSteps : 1);
  return std::max(least, config_.step_multiple * usual(seconds_));
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const double limit = limit_s();
    wake_.wait_for(lock, std::chrono::duration<double>(std::clamp(limit / kLooksPerLimit, 0.01, 1.0)));
    const double waited = std::chrono::duration<double>(options_.now() - last_).count();
    // Again after twice the time, and so on: who was slow before may be stuck elsewhere by then.
    if (ends_ || num_pauses_ > 0 || waited < std::max(limit, 2 * reported_after_s_)) continue;
    const bool is_first = std::exchange(reported_after_s_, waited) == 0;
    const std::int64_t step = step_;
    const double usual_s = usual(seconds_);
    lock.unlock();
    try {
      report(waited, step, usual_s, is_first);
    } catch (const std::exception& error) {  // a full disk doesn't end a run that may only be slow
      if (options_.tell) options_.tell(std::string("cannot tell where the run hangs: ") + core::as_error(error).what());
    }
    lock.lock();
  }
}

void Watchdog::report(double waited_s, std::int64_t step, double median_s, bool is_first) {
  const std::optional<runtime::SpanLog::Open> span = spans_.innermost();
  const std::string doing =
      span ? "in " + span->name + " for " + core::format_duration(span->seconds) : "between two spans";
  // First: other ranks wait for this word, and stacks take long on a busy machine.
  if (options_.tell_ranks) options_.tell_ranks(doing, step);
  std::string text = "no step for " + core::format_duration(waited_s) + " after step " + core::format_count(step);
  if (median_s > 0) text += " (median " + core::format_duration(median_s) + ")";
  const std::string stacks = "rank " + std::to_string(options_.rank) + ": " + text + "; " + doing + "\n\nSpans:\n" +
                             spans_.text() + "\nStacks:\n" + runtime::stacks_of_all_threads();
  const std::filesystem::path file =
      options_.run_directory / "stacks" /
      ("step_" + std::to_string(step) + "_rank_" + std::to_string(options_.rank) + ".txt");
  std::filesystem::create_directories(file.parent_path());
  if (is_first) core::write_file_atomically(file, stacks);  // at once: the run may be ended while ranks are compared
  const std::string others = options_.compare ? options_.compare(step) : "";
  if (!is_first && options_.compare && others.empty()) return;
  core::write_file_atomically(file, (others.empty() ? "" : others + "\n\n") + stacks);
  const std::string news = (span ? span->name : "") + without_times(others);
  if (options_.tell && (news != std::exchange(told_, news) || is_first))
    options_.tell(text + ": it is " + doing + (others.empty() ? "" : "; " + others) + "; spans and stacks are in " +
                  file.string());
}

}  // namespace trainctl::train

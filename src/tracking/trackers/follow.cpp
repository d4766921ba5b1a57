#include "tracking/trackers/follow.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "core/error.h"
#include "core/log.h"

namespace trainctl::tracking {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kInterval{1000};
constexpr milliseconds kLongestRetry{30'000};
constexpr milliseconds kRetryAtEnd{500};
constexpr std::chrono::seconds kLongestEnd{60};

/// Waits, but not beyond the input's end. Returns whether the input was closed.
bool is_closed_after(int input, milliseconds wait) {
  const auto deadline = steady_clock::now() + wait;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    pollfd watched{.fd = input, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::max(left.count(), milliseconds::rep{0})));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char ignored[256];
    if (::read(input, ignored, sizeof ignored) <= 0) return true;
  }
}

/// A run and its delivery, which is made again after each failure.
class Follower {
 public:
  explicit Follower(const DeliveryOptions& options) : options_(options) {}

  /// Delivers what there is. Returns false if that failed, or lasts beyond the deadline.
  bool deliver(steady_clock::time_point deadline = steady_clock::time_point::max()) {
    try {
      if (!delivery_) delivery_.emplace(options_);
      while (delivery_->deliver() > 0)
        if (steady_clock::now() >= deadline) return false;
      options_.start = Start::goes_on;
      tell_success();
      return true;
    } catch (const std::exception& error) {
      tell_failure(core::as_error(error));
      delivery_.reset();
      return false;
    }
  }

  /// Delivers the run's end. Returns whether nothing is left.
  bool finish() {
    try {
      return delivery_->finish();
    } catch (const std::exception& error) {
      tell_failure(core::as_error(error));
      delivery_.reset();
      return false;
    }
  }

 private:
  void tell_failure(const core::Error& error) {
    if (has_failed_) return;
    has_failed_ = true;
    core::log().warning("tracking: " + options_.target.kind + ": " + error.text());
  }
  void tell_success() {
    if (!has_failed_) return;
    has_failed_ = false;
    core::log().info("tracking: " + options_.target.kind + ": delivers again");
  }

  DeliveryOptions options_;
  std::optional<Delivery> delivery_;
  bool has_failed_ = false;
};

}  // namespace

bool follow_run(const DeliveryOptions& options, int input) {
  Follower follower(options);
  milliseconds wait = kInterval;
  do {
    wait = follower.deliver() ? kInterval : std::min(2 * wait, kLongestRetry);
  } while (!is_closed_after(input, wait));
  const auto deadline = steady_clock::now() + kLongestEnd;
  while (true) {
    if (follower.deliver(deadline) && follower.finish()) return true;
    if (steady_clock::now() >= deadline) return false;
    ::usleep(static_cast<useconds_t>(std::chrono::microseconds(kRetryAtEnd).count()));
  }
}

}  // namespace trainctl::tracking

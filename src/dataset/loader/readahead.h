// Whether to ask the system for samples before they are read: pays where the disk is waited for, and costs a little
// where everything lies in memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace trainctl::dataset {

/// Watches what reading a sample takes. On from the first slow reads to the end of their epoch: the next one may find
/// all in memory.
class Readahead {
 public:
  /// Samples from one that is read now to one that is asked for.
  static constexpr std::int64_t kSamples = 16;

  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  /// `samples` of an epoch took so long to read, by one thread. One caller at a time.
  void note(std::int64_t epoch, std::int64_t samples, std::int64_t nanoseconds);

 private:
  std::atomic<bool> is_on_{false};
  std::int64_t epoch_ = 0;
  double usual_ns_ = 0;
};

}  // namespace trainctl::dataset

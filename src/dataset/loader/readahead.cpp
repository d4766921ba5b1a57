#include "dataset/loader/readahead.h"

namespace trainctl::dataset {
namespace {

constexpr double kSlowNs = 100'000;  // from memory a photo takes 20 to 40 µs
constexpr double kWeight = 0.1;      // of the newest samples in the average

}  // namespace

void Readahead::note(std::int64_t epoch, std::int64_t samples, std::int64_t nanoseconds) {
  if (samples == 0) return;
  if (epoch > epoch_) {
    epoch_ = epoch;
    usual_ns_ = 0;
    is_on_.store(false, std::memory_order_relaxed);
  }
  usual_ns_ += kWeight * (static_cast<double>(nanoseconds) / static_cast<double>(samples) - usual_ns_);
  if (usual_ns_ > kSlowNs) is_on_.store(true, std::memory_order_relaxed);
}

}  // namespace trainctl::dataset

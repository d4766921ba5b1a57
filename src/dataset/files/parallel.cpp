#include "dataset/files/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace trainctl::dataset {

void for_each_in_parallel(std::int64_t count, std::int64_t threads, const std::function<void(std::int64_t)>& task) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::int64_t failed = count;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) {
      try {
        task(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::int64_t t = 1; t < std::min(threads, count); ++t) others.emplace_back(work);
    } catch (const std::exception&) {
      // Fewer threads do the same work.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trainctl::dataset

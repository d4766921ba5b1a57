// Ranks that are threads of the test.
#pragma once

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/world.h"

namespace trainctl::testing {

/// Calls `work(group)` on a thread for each rank; the failure that came first is rethrown.
template <class Work>
void on_ranks(std::int64_t world_size, const Work& work) {
  std::vector<std::unique_ptr<comm::Group>> groups = comm::thread_groups(world_size, std::chrono::seconds(60));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (std::unique_ptr<comm::Group>& group : groups)
    threads.emplace_back([&] {
      try {
        work(*group);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        group.reset();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace trainctl::testing

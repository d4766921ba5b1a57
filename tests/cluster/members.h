// Members of a group, each on a thread of its own.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/group.h"

namespace trainctl::testing {

/// Runs `work(member)` for each, at once; the message of what each threw, "" where it didn't.
template <class Work>
std::vector<std::string> on_threads(std::int64_t num_members, Work work) {
  std::vector<std::string> errors(static_cast<std::size_t>(num_members));
  std::vector<std::thread> threads;
  for (std::int64_t member = 0; member < num_members; ++member)
    threads.emplace_back([&, member] {
      try {
        work(member);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(member)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace trainctl::testing

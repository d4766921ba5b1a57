// Members of a group, each on a thread of its own.
#pragma once

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/group.h"

namespace trainctl::testing {

/// LibTorch's recorder of Gloo's collectives, one for the process, adds groups to a map without a lock: ranks that are
/// threads crashed there once in thirty runs. Real ranks are processes, and ours are recorded by the journal.
inline const bool kNoFlightRecorder = ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1) == 0;

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

/// What on_threads gives where no member threw.
inline std::vector<std::string> no_errors(std::int64_t num_members) {
  return std::vector<std::string>(static_cast<std::size_t>(num_members));
}

}  // namespace trainctl::testing

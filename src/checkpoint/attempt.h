// One start of a job, as those who save together know it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "comm/group.h"

namespace trainctl::checkpoint {

struct Attempt {
  std::int64_t number = 0;  // differs from that of every other start
  std::int64_t owner = 0;   // the first member's process
};

/// Returns this start of the job, equal on all members. All members call it. Throws Error on every member if a file
/// that the first member writes into `directory` isn't visible to a member. Each member looks for the file for
/// `patience`, because a file system may cache that a file is absent.
Attempt agree_on_attempt(const std::filesystem::path& directory, comm::Group& group,
                         std::chrono::milliseconds patience = std::chrono::seconds(10));

/// A number that no other start has, the same for all members.
std::int64_t agree_on_number(comm::Group& group);

}  // namespace trainctl::checkpoint

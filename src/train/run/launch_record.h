// What a run directory knows of the job that works in it: so that one that its launcher starts again, after a failure
// or on other nodes, goes on with it whatever it was told at first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/auto_values.h"

namespace trainctl::train {

struct LaunchRecord {
  std::vector<std::string> launchers;  // World::launchers() of the last start
  std::string resumed_from;            // the checkpoint that the user named, or ""
  std::int64_t global_batch = 0;       // samples of a step
  experiment::AutoValues values{};     // of what is `auto`
  std::int64_t began = 0;              // by the clock of the file system; 0: now
};

/// None where no job that can be started again worked in `run_directory`.
std::optional<LaunchRecord> read_launch_record(const std::filesystem::path& run_directory);
void write_launch_record(const std::filesystem::path& run_directory, LaunchRecord record);

/// Whether it goes on under some of these launchers.
bool goes_on(const LaunchRecord& record, const std::vector<std::string>& launchers);

/// Whether a file of the run's file system was written since the job began.
bool is_of(const LaunchRecord& record, const std::filesystem::path& path);

}  // namespace trainctl::train

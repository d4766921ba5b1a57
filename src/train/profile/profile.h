// Some steps of a run under the profiler: `trainctl profile`, and training that records itself.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "comm/group.h"
#include "profiler/profiler.h"
#include "train/run/run.h"

namespace trainctl::train {

class RunProfile {
 public:
  /// Files go to `<run_directory>/profile`. `settings`: the config, flattened. Measures the device's peaks: a tenth of
  /// a second. Steps are numbered from the run's next.
  RunProfile(Run& run, const std::filesystem::path& run_directory, const std::map<std::string, std::string>& settings);

  /// Around everything that a step is: data, update, records.
  void step_begins();
  void step_ends();
  std::int64_t num_steps() const { return profiler_->num_steps(); }
  bool is_over() const { return profiler_->is_over(); }

  /// Called by all ranks, when it is over. The first one writes summary.json and report.html; the others' results are
  /// of themselves.
  profiler::ProfileSummary finish(const profiler::DataSummary& data);

 private:
  profiler::DistributedSummary compare_ranks(const profiler::ProfileSummary& mine);

  Run& run_;
  std::filesystem::path directory_;
  profiler::Peaks peaks_;
  std::unique_ptr<profiler::Profiler> profiler_;
  comm::CommunicationTime communication_;  // of the active steps
};

}  // namespace trainctl::train

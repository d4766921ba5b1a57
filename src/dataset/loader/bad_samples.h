// Samples that can't be read or decoded: left out or replaced, counted, told once each, and no more than a ceiling.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "dataset/collate/sample_writer.h"
#include "dataset/config.h"

namespace trainctl::dataset {

struct BadSampleReport {
  std::int64_t index = 0;  // in its source
  std::string what;        // names the file
};

/// Filled by the loaders' threads, emptied by whoever tells.
class BadSampleLog {
 public:
  explicit BadSampleLog(std::int64_t most, OnBadSample policy = OnBadSample::fail) : most_(most), policy_(policy) {}

  OnBadSample policy() const { return policy_; }

  /// An Error when these are more than may be. The same sample counts once.
  void add(BadSampleReport report);
  /// Counts a sample that an earlier process of the run has told of.
  void add_known(const BadSampleReport& report);
  /// Returns the reports that are new since the last call.
  std::vector<BadSampleReport> take();
  std::int64_t count() const;

 private:
  std::int64_t most_;
  OnBadSample policy_;
  mutable std::mutex mutex_;
  std::set<std::pair<std::int64_t, std::string>> known_;  // indices, and problems, which tell sources apart
  std::vector<BadSampleReport> fresh_;
};

/// Stands for no sample.
inline constexpr std::int64_t kLeftOut = -1;

/// Writes a sample. If it is bad, the policy of the log decides. Returns the index of the sample that was written, or
/// kLeftOut. A replacement is another sample of the source, always the same.
std::int64_t write_or_tolerate(const SampleWriter& writer, SampleKey key, Scratch& scratch, std::byte* input,
                               std::int64_t* target, const Source& source, BadSampleLog* log);

}  // namespace trainctl::dataset

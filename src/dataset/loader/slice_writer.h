// Writes runs of samples into their batch's memory, by any number of threads at once.
#pragma once

#include <cstdint>
#include <exception>

#include "dataset/collate/sample_writer.h"
#include "dataset/loader/bad_samples.h"
#include "dataset/loader/batch_task.h"
#include "dataset/loader/readahead.h"

namespace trainctl::dataset {

class SliceWriter {
 public:
  /// What it is made of outlives it. `num_samples` is the size of the set; `log` may be null.
  SliceWriter(const SampleWriter& writer, const Source& source, BadSampleLog* log, const Readahead& readahead,
              std::int64_t num_samples)
      : writer_(writer), source_(source), log_(log), readahead_(readahead), num_samples_(num_samples) {}

  /// Writes the slice's samples. Returns the failure, or null: the thread of a worker must not end by an exception.
  std::exception_ptr write(const Slice& slice, Scratch& scratch) const noexcept;

 private:
  void ask_ahead(const Slice& slice, StageTimes& times) const;

  const SampleWriter& writer_;
  const Source& source_;
  BadSampleLog* log_;
  const Readahead& readahead_;
  std::int64_t num_samples_;
};

}  // namespace trainctl::dataset

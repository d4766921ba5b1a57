// A batch of the loader's, from its plan to its last sample.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/loader/batch_buffer.h"
#include "dataset/sampler/sampler.h"

namespace trainctl::dataset {

/// A batch on its way, or the mark that an epoch ends.
struct BatchTask {
  Position start;           // of the batch of all ranks
  std::int64_t shared = 0;  // samples of that batch; 0 where the epoch ends
  std::int64_t offset = 0;  // of this rank's samples in it
  std::int64_t count = 0;   // this rank's samples
  std::shared_ptr<const EpochOrder> order;
  std::vector<SampleKey> keys{};  // of this rank's samples, where lengths decide on them; empty: the order's
  std::shared_ptr<BatchBuffer> buffer{};
  std::vector<std::int64_t> written{};  // [count], index of the sample in each row; kLeftOut: none
  std::int64_t claimed = 0;             // samples that some thread has taken on
  std::int64_t finished = 0;            // samples that are written
  std::exception_ptr failure{};

  bool ends_epoch() const { return shared == 0; }
  bool settled() const { return finished == count || failure != nullptr; }
};

/// A run of samples of a ticket that one thread writes.
struct Slice {
  std::shared_ptr<BatchTask> ticket{};
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

}  // namespace trainctl::dataset

// The one Loader: batches in order, prepared ahead by threads.
#pragma once

#include <cstdint>
#include <memory>

#include "dataset/batch_buffer.h"
#include "dataset/dataset.h"
#include "dataset/order.h"
#include "dataset/sample_writer.h"

namespace trainctl {

enum class LastBatch { keep, drop };
/// What workers do when an epoch is prepared: go on with the next, or rest (and free their memory) until they are
/// asked.
enum class AfterEpoch { go_on, rest };

struct LoaderParts {
  std::unique_ptr<Source> source;
  std::unique_ptr<SampleWriter> writer;  // of that source
  std::uint64_t seed = 0;
  std::int64_t batch_size = 1;  // of this rank
  Share share{};
  std::int64_t workers = 0;
  std::int64_t batches_ahead = 2;
  Shuffling shuffling = Shuffling::none;
  LastBatch last_batch = LastBatch::keep;
  AfterEpoch after_epoch = AfterEpoch::go_on;
  std::int64_t bucket_batches = 0;  // sort the source's lengths within runs of this many batches; 0: don't
  HostMemoryKind memory = HostMemoryKind::pageable;
};

/// Its workers begin with the first seek() or next().
std::unique_ptr<Loader> make_loader(LoaderParts parts);

}  // namespace trainctl

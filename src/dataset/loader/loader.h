// The one Loader: batches in order, prepared ahead by threads.
#pragma once

#include <cstdint>
#include <memory>

#include "core/clock.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/dataset.h"
#include "dataset/loader/batch_buffer.h"
#include "dataset/sampler/sampler.h"

namespace trainctl::dataset {

enum class LastBatch { keep, drop };
/// Behaviour of the workers once an epoch is prepared. go_on: they prepare the next epoch. rest: they wait for the next
/// request, and the batches' memory is freed. end: the threads end, which frees their own memory too.
enum class AfterEpoch { go_on, rest, end };

struct LoaderParts {
  std::unique_ptr<Source> source;
  std::unique_ptr<SampleWriter> writer;       // of that source
  std::shared_ptr<BadSampleLog> bad_samples;  // with the policy for them; null: they fail
  std::shared_ptr<CachedSamples> cache;       // that the writer uses, for the statistics; null: none
  std::uint64_t seed = 0;
  std::int64_t batch_size = 1;  // of this rank
  Share share{};
  std::int64_t global_batch = 0;     // no batch crosses a multiple of this many samples; 0: they may
  std::int64_t workers = 0;          // at first
  std::int64_t most_workers = 0;     // that there may be later, where these turn out to be too few
  std::int64_t prefetch_factor = 2;  // batches ahead for each of them; two at least, and no more than 1 GiB
  Shuffling shuffling = Shuffling::none;
  std::vector<std::int64_t> class_counts{};     // of the samples' classes; empty: not known
  std::vector<std::int64_t> balanced_labels{};  // of the samples, to draw each class equally often; empty: no drawing
  LastBatch last_batch = LastBatch::keep;
  AfterEpoch after_epoch = AfterEpoch::go_on;
  std::int64_t length_group_batches = 0;  // sort the source's lengths within runs of this many batches; 0: don't
  HostMemoryKind memory = HostMemoryKind::pageable;
  core::Clock now = &core::steady_now;  // by which waits are counted
};

/// Batches that so many workers may have ready.
std::int64_t batches_ahead(std::int64_t workers, std::int64_t prefetch_factor, std::int64_t batch_bytes);

/// Its workers begin with the first seek() or next().
std::unique_ptr<Loader> make_loader(LoaderParts parts);

/// Returns the tokens of the longest sample, to which its batch is padded; 0: samples are alike.
std::int64_t longest_sample(const Loader& loader);

}  // namespace trainctl::dataset

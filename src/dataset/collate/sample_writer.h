// From a source's sample to its row of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sampler/sampler.h"
#include "dataset/stage_times.h"

namespace trainctl::dataset {

class CachedSamples;

/// What one thread needs beside the batch; reused from sample to sample.
struct Scratch {
  ImageScratch image{};
  std::vector<std::int64_t> tokens{};
  StageTimes times{};  // a writer adds what it can tell; the rest of its time counts as transform
};

/// Writes samples into batches. Pure, and called from many threads at once.
class SampleWriter {
 public:
  virtual ~SampleWriter() = default;
  /// What batches hold; the source's own samples may be of other sizes.
  virtual SampleSpec spec(const SampleSpec& source) const { return source; }
  virtual std::int64_t input_bytes() const = 0;   // of a sample in a batch
  virtual std::int64_t target_count() const = 0;  // of its targets, int64 each
  virtual Scratch make_scratch() const = 0;
  virtual void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const = 0;
  /// That a sample will soon be written: what has to be read for it may be on its way by then.
  virtual void will_need(SampleKey) const {}
  /// Tensors of the first `count` rows; they share `inputs` and `targets`, and call `release` when they are freed.
  virtual Batch wrap(std::int64_t count, void* inputs, void* targets,
                     const std::function<void(void*)>& release) const = 0;
};

/// `source` must outlive the writer.
std::unique_ptr<SampleWriter> make_image_writer(const RawSource& source, Transforms transforms, std::uint64_t seed);
/// Decodes straight into the batch, or takes pixels from `cache` where there is one.
std::unique_ptr<SampleWriter> make_image_writer(const EncodedImageSource& source, Transforms transforms,
                                                std::uint64_t seed, std::shared_ptr<CachedSamples> cache = nullptr);
/// Writes images and the classes of their pixels, which move as their images do.
std::unique_ptr<SampleWriter> make_mask_writer(const EncodedImageSource& source, Transforms transforms,
                                               std::uint64_t seed, std::shared_ptr<CachedSamples> cache = nullptr);
/// The input is a source's first T tokens, the targets are the last T: each token's successor.
std::unique_ptr<SampleWriter> make_token_writer(const RawSource& source);

/// Returns a writer whose input is a source's first T tokens, with some of them replaced by id 0. Each token is
/// replaced with this probability, and is then the target at its position; the other targets are -100. Training
/// replaces other tokens in each epoch, evaluation always the same ones.
std::unique_ptr<SampleWriter> make_masked_token_writer(const RawSource& source, double probability, Phase phase,
                                                       std::uint64_t seed);

/// How a source's [C, H, W] lies in memory.
ImageShape image_shape(const SampleSpec& spec);

}  // namespace trainctl::dataset

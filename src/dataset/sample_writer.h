// From a source's sample to its row of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dataset/dataset.h"
#include "dataset/transform.h"

namespace trainctl {

/// What one thread needs beside the batch; reused from sample to sample.
struct Scratch {
  Pixels pixels;
  std::vector<std::int64_t> tokens;
};

/// Which sample, and in which epoch: all that its content depends on.
struct SampleKey {
  std::int64_t epoch = 0;
  std::int64_t index = 0;
};

/// Writes samples into batches. Pure, and called from many threads at once.
class SampleWriter {
 public:
  virtual ~SampleWriter() = default;
  virtual std::int64_t input_bytes() const = 0;   // of a sample in a batch
  virtual std::int64_t target_count() const = 0;  // of its targets, int64 each
  virtual Scratch make_scratch() const = 0;
  virtual void write(SampleKey key, Scratch& scratch, std::byte* input, std::int64_t* target) const = 0;
  /// Tensors of the first `count` rows; they share `inputs` and `targets`, and call `release` when they are freed.
  virtual Batch wrap(std::int64_t count, void* inputs, void* targets,
                     const std::function<void(void*)>& release) const = 0;
};

/// `source` must outlive the writer.
std::unique_ptr<SampleWriter> make_image_writer(const Source& source, Transforms transforms, std::uint64_t seed);
/// The input is a source's first T tokens, the targets are the last T: each token's successor.
std::unique_ptr<SampleWriter> make_token_writer(const Source& source);

/// The input is a source's first T tokens, of which this share is replaced by id 0, and asked for.
std::unique_ptr<SampleWriter> make_masked_token_writer(const Source& source, double probability, std::uint64_t seed);

/// How a source's [C, H, W] lies in memory.
ImageShape image_shape(const SampleSpec& spec);

}  // namespace trainctl

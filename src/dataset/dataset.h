// Sources -> transforms -> shuffled, prefetched, seekable batches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dataset/config.h"
#include "dataset/standardization.h"

namespace trainctl::dataset {

/// What makes bytes normalised floats: byte * scale + bias, of each channel.
struct PixelScaling {
  std::vector<float> scale;
  std::vector<float> bias;
};

struct TableEncoding;  // dataset/table/table_encoding.h

/// What every sample of a dataset looks like.
struct SampleSpec {
  std::vector<std::int64_t> input_shape;    // images: [C, H, W]; tokens: [T], the longest
  at::ScalarType input_dtype = at::kFloat;  // of the batch that reaches the model
  std::int64_t num_classes = 0;             // of labels and token_labels
  std::int64_t target_length = 0;  // tokens, of the longest target of a source; 0: samples have no such targets
  std::int64_t vocab_size = 0;     // of tokens
  Targets targets = Targets::labels;
  Standardization labels{};                      // from which `values` were made; learned from the training samples
  std::vector<std::string> class_names{};        // empty: they have none
  std::shared_future<double> bytes_per_token{};  // of the text's UTF-8, counted at the first get(); invalid: not known
  std::optional<PixelScaling> to_normalize{};    // batches hold bytes, and this is left for the device to do
  std::shared_ptr<const TableEncoding> table{};  // null: samples are no rows of a table
  std::vector<std::int64_t> class_counts{};      // [num_classes], of the training samples; empty: not known
  bool is_image() const { return input_shape.size() == 3; }
  /// Returns the most tokens that a sample has, of its source and its target; 0: samples are no sequences.
  std::int64_t tokens_per_sample() const { return vocab_size > 0 ? input_shape.front() + target_length : 0; }
};

/// One micro-batch on the host. Its buffers go back to the loader when the last tensor that shares them is freed.
struct Batch {
  at::Tensor inputs;   // images: float (or bytes, SampleSpec::to_normalize) [B, C, H, W], channels last when C > 1;
                       // tokens: int64 [B, T]
  at::Tensor targets;  // as SampleSpec::targets says
  // Of tokens; undefined where there is nothing to say.
  at::Tensor token_types{};        // int64 [B, T]: second texts of pairs have 1
  at::Tensor key_mask{};           // bool [B, T], false at padding
  at::Tensor documents{};          // int64 [B, T], rising: which of the row's documents a token belongs to
  at::Tensor target_positions{};   // int64 [N], rising: which of targets.flatten() aren't -100
  at::Tensor decoder_inputs{};     // int64 [B, T of the targets], if `inputs` are the sources of an encoder-decoder
  std::optional<double> weight{};  // of the samples, if their classes have weights; the task states it
  // Row i is sample number first_sample + i of the epoch's order, counted over all ranks.
  std::int64_t epoch = 0;
  std::int64_t first_sample = 0;
  std::vector<std::int64_t> indices{};  // [B], of the rows' samples in their source
  std::int64_t size() const { return inputs.size(0); }
};

/// Where a loader stands: the next sample is number `sample` of `epoch`'s order.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
  bool operator==(const Position&) const = default;
};

class BadSampleLog;
class Sampler;
class SampleWriter;
enum class Phase;      // training or evaluation: dataset/image/transform/transform.h
enum class Shuffling;  // dataset/sampler/sampler.h

class RawSource;
class EncodedImageSource;  // dataset/image/codec/encoded_source.h
/// How the samples of a source are read: as raw bytes of one size, or as image files.
using SampleReading = std::variant<const RawSource*, const EncodedImageSource*>;

/// Samples by index: a RawSource or an EncodedImageSource. Pure: the same index gives the same bytes, from any thread.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  virtual const SampleSpec& spec() const = 0;
  /// Returns this source as what its samples are read from.
  virtual SampleReading reading() const = 0;
  /// Changes when the data changes; not with its path.
  virtual std::string fingerprint() const = 0;
  /// A writer of its own, for sources whose batches are more than rows of samples; null: there is none.
  virtual std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const;
  /// An order of its own, for sources that are best read in some; null: any order is as good.
  virtual std::unique_ptr<Sampler> make_order(Shuffling shuffling, std::uint64_t seed) const;
  /// Tokens of each sample, so that batches can be made of similar ones; empty: all samples are alike.
  virtual std::span<const std::int32_t> lengths() const { return {}; }
  /// Returns the class of each sample; empty if samples have none, or if it is not known before they are read.
  virtual std::vector<std::int64_t> labels() const { return {}; }
};

/// Samples of raw bytes, all of one size.
class RawSource : public Source {
 public:
  /// Returns the bytes of a sample. Images are uint8 [H, W, C]. Tokens are int64 [T + 1]: the input is the first T, and
  /// the targets, each token's successor, are the last T.
  virtual std::int64_t sample_bytes() const = 0;
  /// Copies sample `index` into `sample` (sample_bytes() long) and returns its label (0 for tokens).
  virtual std::int64_t get(std::int64_t index, std::byte* sample) const = 0;
  SampleReading reading() const final { return this; }
};

/// Returns a source whose samples are raw; those of image files aren't.
inline const RawSource& raw_samples(const Source& source) {
  return *std::get<const RawSource*>(source.reading());
}

/// What a loader has done and waited for since it was last asked.
struct LoaderStats {
  double wait_ms = 0;        // of next()
  std::int64_t batches = 0;  // that next() gave
  std::int64_t starved = 0;  // of them, those that weren't ready when they were asked for
  double read_ms = 0;        // of all threads together
  double decode_ms = 0;
  double transform_ms = 0;
  std::int64_t workers = 0;       // now
  std::int64_t most_workers = 0;  // that `auto` may take; 0: the number is fixed
  std::int64_t cache_hits = 0;    // samples whose pixels were in the cache
  std::int64_t cache_misses = 0;  // of samples that could have been
  std::int64_t cache_bytes = 0;   // in use now
};

/// One process of several that share an epoch's samples.
struct Share {
  std::int64_t rank = 0;
  std::int64_t world = 1;
};

/// Batches in order, one consumer. Worker threads fill a bounded ring of reusable buffers ahead of it.
class Loader {
 public:
  virtual ~Loader() = default;
  /// Returns the next micro-batch, or none at the end of an epoch; the next call then begins the next epoch. Each rank
  /// gets its run of the next batch_size × world samples. All ranks get the same number of batches. The ranks share the
  /// last batch evenly; its size is 0 on some ranks if it has fewer samples than ranks. Rethrows the failure of a
  /// worker.
  virtual std::optional<Batch> next() = 0;
  /// O(1). Batches already prepared for elsewhere are thrown away.
  virtual void seek(Position position) = 0;
  /// Returns the position of the sample with which next() begins, counted over all ranks. It is equal on all ranks, and
  /// doesn't depend on their number.
  virtual Position position() const = 0;
  /// Returns the samples of an epoch on all ranks.
  virtual std::int64_t num_samples() const = 0;
  /// Returns the batches of an epoch, which are as many on each rank.
  virtual std::int64_t batches_per_epoch() const = 0;
  virtual const SampleSpec& spec() const = 0;
  /// How long the last next() waited for its batch, in milliseconds.
  virtual double last_wait_ms() const = 0;
  virtual LoaderStats take_stats() = 0;
};

/// The set that Datasets::eval reads.
enum class EvaluatedSet { eval, test, train };

struct LoaderOptions {
  std::uint64_t seed = 0;
  bool pin_memory = false;           // what `auto` means here
  bool normalize_on_device = false;  // what `auto` means here
  std::int64_t workers = 1;          // what `auto` begins with
  std::int64_t most_workers = 0;     // what `auto` may grow to; below `num_workers`: it doesn't grow
  std::int64_t local_ranks = 1;      // processes on this node that may share a cache
  Share share{};
  /// Samples of a step on all ranks, where that isn't a multiple of batch_size × world: batches end with the step, its
  /// last one shared evenly. 0: it is one.
  std::int64_t global_batch = 0;
  /// Evaluation batches come in a random order, always the same, so that the first ones are a sample of the set.
  bool samples_evaluation = false;
  std::shared_ptr<BadSampleLog> bad_samples{};  // build() sets it
  EvaluatedSet evaluated = EvaluatedSet::eval;  // a test set of its own is opened for this alone
  std::optional<FoldConfig> fold{};             // of the config
  /// The samples that a trained model knows: its classes, and how inputs are made of a table's columns. Null: the
  /// training samples decide.
  std::shared_ptr<const SampleSpec> trained{};
  /// Told of what takes a while, such as tokenising text for the first time.
  std::function<void(const std::string&)> tell{};
};

struct Datasets {
  std::unique_ptr<Loader> train;  // null where a trained model is evaluated on files of their own
  std::unique_ptr<Loader> eval;   // LoaderOptions::evaluated; null where the config has no such set; all samples, in
                                  // order or by length, no random transforms
  std::string fingerprint;        // of the training source
  std::shared_ptr<BadSampleLog> bad_samples{};  // of both
  std::string eval_fingerprint{};               // of the source that `eval` reads; "" without one
  std::string undivided_fingerprint{};          // of the samples that are dealt to folds; "" without folds
};

/// Opens the files and checks them. Wrong files are Errors naming the file and the offset.
Datasets build(const DatasetConfig& config, const LoaderOptions& options);

/// Opens data that mean what they meant in training, though the files may have changed: numbers are scaled as the
/// training of `trained` learned to.
Datasets build_as_trained(const DatasetConfig& config, const LoaderOptions& options, const SampleSpec& trained);

}  // namespace trainctl::dataset

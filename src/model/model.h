// A network for one device. Parallelism and memory saving are laid over it from outside, through blocks().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/linear_cross_entropy.h"
#include "model/config.h"
#include "model/layer.h"
#include "model/sequence.h"
#include "runtime/state.h"

namespace trainctl::model {

/// Consecutive blocks: blocks()[begin] to blocks()[end - 1].
struct BlockRange {
  std::size_t begin = 0;
  std::size_t end = std::numeric_limits<std::size_t>::max();  // cut to the number of blocks

  bool operator==(const BlockRange&) const = default;
};

/// What a model is given.
struct ModelInput {
  at::Tensor values;               // images [B, C, H, W], or token ids int64 [B, T], of this rank's tokens
  at::Tensor token_types{};        // int64 [B, T]; undefined: all 0
  at::Tensor key_mask{};           // bool [B, T], false at padding; undefined: no padding
  at::Tensor documents{};          // int64 [B, T], rising: tokens see only their own document; undefined: one a row
  at::Tensor decoder_values{};     // int64 [B, T of the target], for an encoder-decoder: `values` are the sources
  KeyValueCache* cache = nullptr;  // generation: keys and values of earlier tokens; `values` continue them
  BlockRange blocks{};             // what runs: a stage of a pipeline
  at::Tensor hidden{};             // what the block before `blocks` gave; undefined: they begin with the first
  const ContextRanks* ranks = nullptr;  // set by the model: `values` and `token_types` are of this rank's tokens
};

/// An ordered unit of a model: what is sharded, recomputed, captured, or cut into stages.
struct Block {
  std::string name;  // its prefix in parameter names: "layer1.0"
  Layer* layer;
  std::function<at::Tensor(const at::Tensor& input, const SequenceContext& context)> forward;
};

/// Runs one block; the default calls block.forward. Replaced to recompute, gather, time or inspect.
/// An exception may pass through it: a block that is recomputed is left as soon as the backward pass has what it needs.
using BlockRunner =
    std::function<at::Tensor(const Block& block, const at::Tensor& input, const SequenceContext& context)>;

/// A way through blocks, each by the BlockRunner.
using Passage = std::function<at::Tensor(const at::Tensor& input, const SequenceContext& context)>;

/// Consecutive blocks, blocks()[begin] to blocks()[end - 1], that are run as one: recomputed together, for example.
struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  /// Calls `passage`, now or again later. The passage lives as long as the model.
  std::function<at::Tensor(const Passage& passage, const at::Tensor& input, const SequenceContext& context)> run;
};

/// The last block of a language model, in parts, so that a loss needn't hold all logits at once:
/// logits = transform(hidden) weightᵀ + bias. A soft cap may limit them.
class VocabularyHead : public UnaryLayer {
 public:
  at::Tensor compute(const at::Tensor& hidden) final;
  /// [..., D] -> [..., D], each position on its own.
  virtual at::Tensor transform(const at::Tensor& hidden) = 0;
  virtual at::Tensor weight() const = 0;  // [V, D]
  virtual at::Tensor bias() const = 0;    // [V], or undefined
  /// Logits become c · tanh(logit / c) with this c; 0: they stay.
  virtual double logit_softcap() const { return 0; }

  /// Returns the logits as the soft cap leaves them.
  at::Tensor capped(const at::Tensor& logits) const;

  /// transform(), as what weight() multiplies: of the vocabulary that is split over ranks, each rank has some rows.
  at::Tensor features(const at::Tensor& hidden) { return use_in_parts(transform(hidden), ranks_); }
  void split(const TensorRanksPtr& ranks) final;
  /// Returns the number of rows of the whole vocabulary.
  std::int64_t vocabulary_size() const { return vocabulary_size_; }
  /// Null: weight() and bias() have the whole vocabulary.
  const kernels::VocabularyPart* part() const { return ranks_ == nullptr ? nullptr : &part_; }

 protected:
  /// Splits the head's own parameters [V, ...].
  virtual void split_own(const TensorRanks&) {}

 private:
  friend class Model;
  std::int64_t vocabulary_size_ = 0;
  TensorRanksPtr ranks_;
  kernels::VocabularyPart part_;
};

class Model : public Layer {
 public:
  /// Logits [B, num_classes], or [B, T, vocabulary or classes]: the blocks in order. What the last of them gives where
  /// `input.blocks` ends earlier.
  at::Tensor forward(const ModelInput& input);
  at::Tensor forward(const at::Tensor& values) { return forward(ModelInput{.values = values}); }
  /// forward(), but what the last block does is `use`, given the values [B, T, D] that reach it. Only where
  /// vocabulary_head() isn't null and `input.blocks` has it.
  using HeadUse = std::function<at::Tensor(VocabularyHead& head, const at::Tensor& hidden)>;
  at::Tensor forward_into_head(const ModelInput& input, const HeadUse& use);
  /// The last block, where that is a projection to the vocabulary; else null.
  VocabularyHead* vocabulary_head() { return vocabulary_head_; }

  const std::vector<Block>& blocks() const { return blocks_; }
  void set_block_runner(BlockRunner runner) { runner_ = std::move(runner); }
  /// Null: blocks run by themselves.
  const BlockRunner& block_runner() const { return runner_; }
  /// The parameter of another block that the vocabulary head multiplies by; null where it has its own.
  TensorDecl* shared_head_weight() const;
  /// From now on the model has these blocks only, in order: the others' parameters and buffers are dropped. Before it
  /// is materialised. A weight that a kept head shares with one of them is borrowed: it has memory, and is listed
  /// nowhere.
  void keep_blocks(const std::vector<BlockRange>& ranges);
  /// The blocks that it has: all in one range, or what keep_blocks() was given.
  const std::vector<BlockRange>& kept_blocks() const { return kept_; }
  /// The head's weight, where another rank has the block that it is of; else null.
  TensorDecl* borrowed_weight() const { return borrowed_; }
  /// From now on `values`, `token_types` and what blocks give are of this rank's tokens; `key_mask` and `documents` are
  /// of all.
  void share_sequences(const ContextRanksPtr& ranks);
  /// From now on this rank has some of the tokens between the first block and the last: see own_tokens().
  void share_tokens(const TensorRanksPtr& ranks);
  /// In order, without a vocabulary head; blocks between them run on their own. Around the BlockRunner.
  void set_segments(std::vector<Segment> segments);

  /// Multiply-adds count as two; forward pass only. Sequences: at the full length. 0: unknown.
  virtual double flops_per_sample() const = 0;
  /// Sizes of a network whose traits name no parameters that would tell them.
  struct ListedSizes {
    std::int64_t vocab_size = 0;   // 0: it reads no tokens
    std::int64_t num_outputs = 0;  // 0: rows over the vocabulary
  };
  virtual std::optional<ListedSizes> listed_sizes() const { return std::nullopt; }
  /// Whether the network is faster on channels-last images.
  virtual bool prefers_channels_last() const { return false; }

  /// Parameters and buffers, under their own names.
  void visit_state(runtime::State& state);

 protected:
  /// Appends a block; `layer` is a child (or below one) of this model.
  void add_block(std::string name, UnaryLayer& layer);
  void add_block(std::string name, SequenceLayer& layer);
  /// The last block.
  void add_vocabulary_head(std::string name, VocabularyHead& head);
  /// What every block of a network for sequences is given; that for images is empty.
  virtual SequenceContext context(const ModelInput& input) const;
  /// Returns a number that changes when a sequence grows to a length at which keys and values of earlier tokens differ.
  /// They are then computed again. 0 at all lengths: they never differ.
  virtual std::int64_t cache_version(std::int64_t /*length*/) const { return 0; }

 private:
  at::Tensor run(const ModelInput& given, const HeadUse* use);
  /// Puts all tokens in place of those that the cache lacks if what it has no longer holds. Returns how many it puts
  /// before them.
  std::int64_t renew_cache(ModelInput& input) const;
  /// `number`: the place of the block in blocks().
  at::Tensor run_block(std::size_t number, const Block& block, const at::Tensor& input,
                       const SequenceContext& context) const;

  struct PassedSegment {
    Segment segment;
    Passage passage;
  };
  std::vector<PassedSegment> segments_;
  std::vector<BlockRange> kept_{BlockRange{}};
  TensorDecl* borrowed_ = nullptr;
  ContextRanksPtr context_ranks_;
  TensorRanksPtr token_ranks_;  // who have the other tokens between the first block and the last; null: nobody
  VocabularyHead* vocabulary_head_ = nullptr;
  std::vector<Block> blocks_;
  BlockRunner runner_;
};

/// Gives the layers their names in profiles: parameters' prefixes, and the blocks' own names. build() does that.
void name_spans(Model& model);

/// What the model must know of the data.
struct InputSpec {
  std::vector<std::int64_t> shape;  // images: [C, H, W]; tokens: [T], the longest; rows of a table: [columns]
  std::int64_t num_classes = 0;     // 0: not a classification
  std::int64_t vocab_size = 0;      // tokens: ids are below this
  std::int64_t target_length = 0;   // of an encoder-decoder: the longest target; 0: as long as the sources
};

/// The network of the config, not yet materialised.
std::unique_ptr<Model> build(const ModelConfig& config, const InputSpec& input);

/// Computes a network that is read from a file on samples of zeros, in a child process with limits. An Error says why
/// it can't compute these. Does nothing for other networks.
void check_network_file(const NetworkConfig& network, const InputSpec& input);

/// Gives every parameter and buffer its memory and first values: a pure function of (seed, name, shape), on any device.
void materialize(Model& model, c10::Device device, std::uint64_t seed, bool channels_last);

/// Writes a parameter's first values into `value`, which has its shape, on any device.
using FirstValues = std::function<void(const std::string& name, const at::Tensor& value)>;
/// Returns a function that writes the first values that materialize() gives. The model outlives the result.
FirstValues first_values(Model& model, std::uint64_t seed);
/// materialize() for whom the whole model is too much: parameters have device, type and layout, but no memory.
void materialize_without_parameters(Model& model, c10::Device device, bool channels_last);

/// From now on each rank has a part of every layer that knows how to be split(). Before it is materialised.
void split_layers(Model& model, const TensorRanksPtr& ranks);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  std::optional<Shard> shard{};  // of a parameter that is split over ranks
  bool is_copy = false;          // another of the ranks that share layers has it too, and comes first
};
std::vector<NamedTensor> named_parameters(Model& model);
std::vector<NamedTensor> named_buffers(Model& model);
std::int64_t num_parameters(Model& model);
/// What a parameter is in the network. hidden: a matrix, or the filters of a convolution, that gives hidden features.
/// embedding: of tokens or positions, though it may be the output's weight, too. vector: it has a single row or column.
enum class ParameterRole { vector, embedding, hidden, output };

/// What an optimizer asks about a parameter beside its values.
struct ParameterFacts {
  std::int64_t blocks_after = 0;  // how many blocks come after its own: 0 for those of the head
  ParameterRole role = ParameterRole::vector;
  double lr_scale = 1;  // of the learning rate
};

/// Returns the facts of each parameter, by its name.
std::map<std::string, ParameterFacts> parameter_facts(Model& model);

/// Layers whose running statistics may be updated once per optimizer step instead of at every forward (BatchNorm).
enum class RunningStatistics { every_forward, on_commit };
void set_running_statistics(Model& model, RunningStatistics when);
/// Folds the statistics gathered since the last commit into the running ones, as if from one batch that came `updates`
/// times.
void commit_running_statistics(Model& model, std::int64_t updates = 1);

/// How the ranks that share a batch exchange what BatchNorm needs of it; called by all of them at the same layers.
struct BatchRanks {
  std::function<at::Tensor(const at::Tensor& mine)> gather;  // [n] of each rank -> [ranks, n]
  std::function<void(at::Tensor& sum)> sum;                  // in place
  std::function<bool()> has_samples;  // false: what this rank computes on is a placeholder and doesn't count
};
/// From now on training batches are normalised by the statistics of all ranks.
void synchronize_batch_norm(Model& model, const BatchRanks& ranks);

}  // namespace trainctl::model

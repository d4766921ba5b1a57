// A network for one device. Parallelism and memory saving are laid over it from outside, through blocks().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/layer.h"
#include "runtime/state.h"

namespace trainctl {

/// An ordered unit of a model: what is sharded, recomputed, captured, or cut into stages.
struct Block {
  std::string name;  // its prefix in parameter names: "layer1.0"
  UnaryLayer* layer;
};

/// Runs one block; the default calls layer->forward. Replaced to recompute, gather, time or inspect.
using BlockRunner = std::function<at::Tensor(const Block& block, const at::Tensor& input)>;

class Model : public Layer {
 public:
  /// Images [B, C, H, W] or ids [B, T] to logits [B, num_classes] (or [B, T, vocabulary]): the blocks in order.
  at::Tensor forward(const at::Tensor& input);
  const std::vector<Block>& blocks() const { return blocks_; }
  void set_block_runner(BlockRunner runner) { runner_ = std::move(runner); }

  /// Multiply-adds count as two; forward pass only.
  virtual double flops_per_sample() const = 0;
  /// Whether the network is faster on channels-last images.
  virtual bool prefers_channels_last() const = 0;

  /// Parameters and buffers, under their own names.
  void visit_state(State& state);

 protected:
  /// Appends a block; `layer` is a child (or below one) of this model.
  void add_block(std::string name, UnaryLayer& layer) { blocks_.push_back({std::move(name), &layer}); }

 private:
  std::vector<Block> blocks_;
  BlockRunner runner_;
};

/// What the model must know of the data.
struct InputSpec {
  std::vector<std::int64_t> shape;  // images: [C, H, W]; tokens: [T]
  std::int64_t num_classes = 0;
};

/// The network of the config, not yet materialised.
std::unique_ptr<Model> build(const ModelConfig& config, const InputSpec& input);

/// Gives every parameter and buffer its memory and first values: a pure function of (seed, name, shape), on any device.
void materialize(Model& model, c10::Device device, std::uint64_t seed, bool channels_last);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};
std::vector<NamedTensor> named_parameters(Model& model);
std::vector<NamedTensor> named_buffers(Model& model);
std::int64_t num_parameters(Model& model);

/// Layers whose running statistics may be updated once per optimizer step instead of at every forward (BatchNorm).
enum class RunningStatistics { every_forward, on_commit };
void set_running_statistics(Model& model, RunningStatistics when);
/// Folds the statistics gathered since the last commit into the running ones, as if from one batch.
void commit_running_statistics(Model& model);

}  // namespace trainctl

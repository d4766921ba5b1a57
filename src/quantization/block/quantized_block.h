// A block of a network for images in eight bits from its input to its output: convolutions with BatchNorm and ReLU
// folded, sums with ReLU. Between such blocks values stay in eight bits.
#pragma once

#include <memory>

#include "quantization/block/block_graph.h"
#include "quantization/layer/quantized_layer.h"
#include "quantization/training.h"

namespace trainctl::quantization {

/// What a block gives.
enum class BlockResult { levels, floats };

class QuantizedBlock : public QuantizedLayer {
 public:
  /// Returns the levels of the block's output.
  virtual const QParamBuffers& output_levels() const = 0;
};

struct QuantizedBlockOptions {
  std::string label;                     // before names of what is no layer's: a block that has no prefix needs one
  const QParamBuffers* given = nullptr;  // of the block before, which gives levels; null: what comes is floats
  ObserverOptions observer;
  BlockResult result = BlockResult::levels;
  QuantizationBackend backend;
  bool engine_workarounds = true;  // quantization.engine_workarounds
  /// The filter of ops to quantize, by name.
  QuantizedLayer::UnitFilter is_quantized;
  /// What training found for a layer, by its name; null: nothing.
  std::function<const TrainedLevels*(const std::string& unit)> trained;
  /// How training rounded what the block gives, for the one that reads it; none: it didn't.
  std::optional<QParams> trained_result{};
};

/// `graph`: fused. `layer` is what it stands in for.
std::unique_ptr<QuantizedBlock> quantized_block(model::UnaryLayer& layer, BlockGraph graph,
                                                const QuantizedBlockOptions& options);

}  // namespace trainctl::quantization

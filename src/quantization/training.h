// Quantization-aware training: weights and activations are rounded as in eight bits while float weights are trained
// (https://arxiv.org/abs/1712.05877). Rounding passes gradients on as if it weren't there where a value is within range
// (the straight-through estimator, https://arxiv.org/abs/1308.3432), and none beyond.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "model/model.h"
#include "quantization/backend.h"

namespace trainctl::quantization {

/// What training found for one layer.
struct TrainedLevels {
  std::optional<QParams> input{};
  std::optional<QParams> output{};
  at::Tensor weight_scales{};  // float [out], or undefined
};
using TrainedLevelsByLayer = std::map<std::string, TrainedLevels>;

/// Layers of a network for images whose result goes into a sum as it is, and so is rounded before it. `config` is of a
/// model without memory yet; one like it is built for a moment.
std::set<std::string> layers_before_sums(const model::ModelConfig& config, const model::InputSpec& input);

/// The bits of activations in a training for eight bits, on this CPU.
std::int64_t trained_activation_bits(const QuantizationConfig& config);

/// The stand-ins of a model in training.
class QuantizedTraining {
 public:
  /// Puts stand-ins on linear layers, convolutions and embeddings that config.skip_modules doesn't name: their ranges
  /// are buffers, and learned steps parameters, beside the layers' own. Before materialize().
  QuantizedTraining(model::Model& model, const QuantizationConfig& config, const std::set<std::string>& before_sums);

  /// What update number `step` + 1 rounds, watches and freezes.
  void begin_step(std::int64_t step);
  /// Takes the stand-ins away, and gives what they found.
  static TrainedLevelsByLayer take(model::Model& model);

 private:
  model::Model& model_;
  QatConfig config_;
};

/// How skip_modules calls the projection to the vocabulary; empty where there is none.
std::string name_of_head(model::Model& model);

/// Whether a parameter or buffer is of such a stand-in: weights to start from lack it.
bool is_rounding(std::string_view name);

}  // namespace trainctl::quantization

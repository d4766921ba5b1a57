// Layers that only lists have: what torch.nn offers beside the layers of src/model/layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "layer_graph/config.h"
#include "layer_graph/shape.h"
#include "model/layer.h"
#include "model/layers/attention.h"
#include "model/layers/linear.h"
#include "model/sequence.h"

namespace trainctl::model {

/// An operator without parameters.
class Operator final : public UnaryLayer {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  explicit Operator(Function function) : function_(std::move(function)) {}
  at::Tensor compute(const at::Tensor& input) override { return function_(input); }

 private:
  Function function_;
};

/// Returns what an activation, a pooling, or a change of form computes. Layers with parameters, with randomness, or
/// that read more than their input have none.
std::optional<Operator::Function> function_of(const layer_graph::LayerConfig& layer);

/// A layer that a plug-in makes. Its state has this layer's name.
class PlugInLayer final : public UnaryLayer {
 public:
  PlugInLayer(const layer_graph::PluggedLayer& config, const layer_graph::Shape& input);
  at::Tensor compute(const at::Tensor& input) override { return layer_->forward(input); }

 private:
  UnaryLayer* layer_;
};

/// Normalises each pixel over its channels, by a norm over the last dim: [B, C, H, W].
template <class Norm>
class PixelNorm final : public UnaryLayer {
 public:
  PixelNorm(std::int64_t channels, double epsilon) : norm_(child<Norm>("", channels, epsilon)) {}
  at::Tensor compute(const at::Tensor& input) override {
    return norm_.forward(input.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }

 private:
  Norm& norm_;
};

/// torch.nn.GroupNorm (https://arxiv.org/abs/1803.08494): [B, C, H, W].
class GroupNorm final : public UnaryLayer {
 public:
  GroupNorm(std::int64_t channels, std::int64_t groups, double epsilon);
  at::Tensor compute(const at::Tensor& input) override;

 private:
  at::Tensor& weight_;  // [C]
  at::Tensor& bias_;    // [C]
  std::int64_t groups_;
  double epsilon_;
};

/// Multiplies each channel of an image, or each feature, by a learned factor (https://arxiv.org/abs/2103.17239). The
/// factors are one parameter, with the layer's name.
class LayerScale final : public UnaryLayer {
 public:
  LayerScale(const std::string& name, const layer_graph::Shape& input, double init_value);
  at::Tensor compute(const at::Tensor& input) override;

 private:
  at::Tensor& factors_;  // [C]
  bool is_image_;
};

struct TransposedConvolutionSpec {
  std::int64_t in_channels;
  std::int64_t out_channels;
  layer_graph::ConvTranspose2dLayer layer;
};

/// torch.nn.ConvTranspose2d: [B, in, H, W] -> [B, out, H', W'].
class TransposedConvolution final : public UnaryLayer {
 public:
  explicit TransposedConvolution(const TransposedConvolutionSpec& spec);
  at::Tensor compute(const at::Tensor& input) override;
  /// Returns the FLOPs of one input pixel.
  double flops() const { return 2.0 * static_cast<double>(weight_.numel()); }

 private:
  layer_graph::ConvTranspose2dLayer layer_;
  at::Tensor& weight_;  // [in, out, k, k]
  at::Tensor* bias_;    // [out], or null
};

/// Adds a learned vector to each token by its position: [B, T, D].
class PositionEmbedding final : public SequenceLayer {
 public:
  PositionEmbedding(std::int64_t length, std::int64_t features);
  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override;

 private:
  at::Tensor& weight_;  // [length, D]
};

/// Multi-head self-attention (https://arxiv.org/abs/1706.03762) with queries, keys and values in one matrix: [B, T, D].
class SelfAttention final : public SequenceLayer {
 public:
  SelfAttention(std::int64_t features, const layer_graph::AttentionLayer& layer, std::optional<Init> init);
  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override;
  /// Returns the FLOPs of one token, without those between queries and keys.
  double flops() const { return qkv_.flops() + projection_.flops(); }

 private:
  Linear& add_matrix(std::string name, std::int64_t inputs, std::int64_t outputs,
                     const layer_graph::AttentionLayer& layer, std::optional<Init> init);

  Linear& qkv_;
  Linear& projection_;
  std::int64_t num_heads_;
  double dropout_;
};

/// Averages over tokens that are not padding: [B, T, D] -> [B, D].
class MeanOfTokens final : public SequenceLayer {
 public:
  at::Tensor compute(const at::Tensor& input, const SequenceContext& context) override;
};

}  // namespace trainctl::model

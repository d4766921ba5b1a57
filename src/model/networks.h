// The networks, one file each: from a config and the data's shape to a model that isn't materialised yet.
// What the data can't be (tokens, images that are too small, another number of classes) is an Error.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "model/config.h"
#include "model/layers/image_shape.h"
#include "model/model.h"

namespace trainctl::model {

std::unique_ptr<Model> build(const MlpConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const CnnConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const WideResNetConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const Gpt2Config& config, const InputSpec& input);
std::unique_ptr<Model> build(const LlamaConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const BertConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const VitConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const LstmConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const FastTextConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const T5Config& config, const InputSpec& input);
std::unique_ptr<Model> build(const LayersConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const TorchScriptConfig& config, const InputSpec& input);
std::unique_ptr<Model> build(const PluggedNetworkConfig& config, const InputSpec& input);
template <int Depth>
std::unique_ptr<Model> build(const ResNetConfig<Depth>& config, const InputSpec& input);

/// The shape of the data's images; an Error when it has none, or they have no pixels.
ImageShape image_shape(const InputSpec& input, std::string_view network);

/// num_outputs(), or 1 where neither the model nor the data has classes: regression.
std::int64_t num_outputs_or_one(const config::AutoOr<std::int64_t>& own, const InputSpec& input);

/// The model's number of outputs: its own, or the data's; an Error where they contradict each other.
std::int64_t num_outputs(const config::AutoOr<std::int64_t>& own, const InputSpec& input);

/// The data's longest sequence; an Error when it has images, or sequences longer than the network has positions for.
std::int64_t sequence_length(const InputSpec& input, std::string_view network, std::int64_t max_position_embeddings);

/// The number of token embeddings: the config's own, or the data's; an Error where the data has ids beyond it.
std::int64_t vocabulary(const config::AutoOr<std::int64_t>& own, const InputSpec& input);
/// Throws if the token of padding isn't in the vocabulary.
void check_padding(const std::optional<std::int64_t>& pad_token_id, std::int64_t vocab_size);

/// An Error unless the heads share the width evenly.
void check_heads(std::int64_t hidden_size, std::int64_t num_heads);

/// Returns the FLOPs per token of one layer's two attention products: queries with keys, and weights with values.
constexpr double attention_flops(std::int64_t length, std::int64_t width) {
  return 4.0 * static_cast<double>(length) * static_cast<double>(width);
}

}  // namespace trainctl::model

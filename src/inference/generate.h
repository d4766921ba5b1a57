// Text from a causal language model, or from an encoder-decoder, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "inference/sampling.h"
#include "model/model.h"

namespace trainctl::inference {

/// Whether the model keeps what it has computed of earlier tokens (KeyValueCache), or sees them anew at every step.
enum class EarlierTokens { cached, recomputed };

struct GenerationRequest {
  std::vector<std::int32_t> prompt;                     // not empty; ids below the model's vocabulary
  std::vector<std::int32_t> source{};                   // of an encoder-decoder, whose decoder begins with `prompt`
  std::int64_t max_tokens = 128;                        // of what is generated
  std::optional<std::int64_t> max_position_embeddings;  // of the prompt and what is generated; none: any
  std::int64_t vocab_size = 0;                          // ids below this are drawn
  std::vector<std::int32_t> ends{};  // tokens that end the text; they are no part of what is generated
  Sampling sampling{};
  std::uint64_t key = 0;  // names the randomness
  EarlierTokens earlier = EarlierTokens::cached;
};

enum class GenerationEnd { end_token, max_tokens, max_position_embeddings };

struct Generation {
  std::vector<std::int32_t> ids;  // without the prompt
  GenerationEnd ended_by = GenerationEnd::max_tokens;
};

/// `on_token` hears each token when it is drawn. The model is in evaluation mode, on any device.
Generation generate(model::Model& model, const GenerationRequest& request,
                    const std::function<void(std::int32_t)>& on_token);

}  // namespace trainctl::inference

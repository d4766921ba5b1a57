// What layers of networks for sequences are given beside the hidden values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/context_ranks.h"
#include "model/layer.h"

namespace trainctl::model {

/// Keys and values of the tokens seen so far, by attention layer: what generation needn't compute again.
class KeyValueCache {
 public:
  /// Appends to attention layer number `layer` and gives everything it has now. [B, heads, T, head size] each.
  struct KeysValues {
    at::Tensor keys;
    at::Tensor values;
  };
  KeysValues append(std::size_t layer, const at::Tensor& keys, const at::Tensor& values);
  /// Tokens that every layer has seen.
  std::int64_t length() const { return layers_.empty() ? 0 : layers_.back().length; }

  /// Appends the ids of tokens, [B, T], and returns those of all tokens.
  const at::Tensor& append_ids(const at::Tensor& ids);
  /// Forgets keys and values, and keeps the ids.
  void clear() { layers_.clear(); }

 private:
  struct Room {
    at::Tensor keys;  // with room to grow in dim 2
    at::Tensor values;
    std::int64_t length = 0;
  };
  std::vector<Room> layers_;
  at::Tensor ids_;  // int64 [B, T]; undefined: the model doesn't ask for them
};

/// The inputs that all blocks of one forward pass share.
struct SequenceContext {
  at::Tensor token_types{};  // int64 [B, T]; undefined: all 0
  at::Tensor positions{};    // int64 [T] or [B, T], counted from the start of each document; undefined: images
  at::Tensor mask{};         // bool [B, 1, 1 or T, S], true where a query may see a key; undefined: as is_causal says
  bool is_causal = false;    // without a mask: token t sees tokens 0 to t
  at::Tensor key_mask{};     // bool [B, T], false at padding; undefined: no padding
  at::Tensor rope_cosine{};  // float [T, d/2] or [B, T, d/2], for rotary positions only
  at::Tensor rope_sine{};
  at::Tensor local_rope_cosine{};  // the same for layers with a base of their own; undefined: rope_cosine
  at::Tensor local_rope_sine{};
  at::Tensor window_mask{};  // `mask` of layers that slide; undefined: every key that they see is in the window
  KeyValueCache* cache = nullptr;
  const ContextRanks* ranks = nullptr;  // who have the other tokens: T here is that of a rank, and key_mask is [B, T of
                                        // all]; in the place of `mask` attention has it and `documents`
  at::Tensor documents{};               // with ranks: int64 [B, T of all]; undefined: one a row
  at::Tensor position_bias{};           // [1, H, T, S], added to attention's scores; undefined: nothing is added
  // These are of an encoder-decoder.
  std::int64_t source_length = 0;  // tokens of each row's source, padding included
  at::Tensor decoder_ids{};        // int64 [B, T]
  at::Tensor source_buckets{};     // int64 [S, S]: bucket_numbers() (layers/relative_position.h)
  at::Tensor target_buckets{};     // int64 [T, T and what the cache has]
  at::Tensor source{};             // [B, S, D], for attention of a target to its source; undefined: to its own tokens

  /// Returns the same with all tensors on a device.
  SequenceContext on(c10::Device device) const;
};

/// Returns the context of a layer that slides: the window's mask in place of the others.
SequenceContext in_window(const SequenceContext& context);
/// Returns the mask of layers whose queries see the last `window` tokens that `context` allows, their own counted.
/// Undefined if the window hides nothing. `length`: queries; with a cache, keys are the tokens that it has, too.
at::Tensor window_mask(const SequenceContext& context, std::int64_t window, std::int64_t length, c10::Device device);

/// Returns how many tokens the document of each token has: [B, T] -> [B, T].
at::Tensor lengths_of_documents(const at::Tensor& documents);

enum class Causality { causal, bidirectional };

struct ModelInput;
/// Positions and mask for a network whose attention is causal or not.
SequenceContext make_context(const ModelInput& input, Causality causality);

/// A layer of a network for sequences: hidden values [B, T, D] (ids int64 [B, T] for the first) to hidden values.
class SequenceLayer : public Layer {
 public:
  at::Tensor forward(const at::Tensor& input, const SequenceContext& context) {
    const LayerSpan span(*this);
    if (!is_placed()) return compute(input, context);
    return work_where_placed(input,
                             [&](const at::Tensor& value) { return compute(value, context.on(value.device())); });
  }

  /// What forward() does.
  virtual at::Tensor compute(const at::Tensor& input, const SequenceContext& context) = 0;
};

}  // namespace trainctl::model

// A Transformer by its exact dimensions, and how many parameters that makes.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl::cluster {

/// Blocks of attention and a feed-forward layer, between an embedding and an output layer. Without LibTorch: what a
/// prediction for other machines needs of a network.
struct Transformer {
  std::int64_t num_layers = 12;
  std::int64_t hidden_size = 768;
  std::int64_t num_heads = 12;
  std::int64_t num_kv_heads = 12;
  std::int64_t head_size = 0;
  std::int64_t intermediate_size = 3072;
  bool gated = false;
  bool biases = true;
  bool position_embeddings = true;
  std::int64_t vocab_size = 50257;
  std::int64_t sequence_length = 1024;
  bool tied = true;
  bool causal = true;
  double predicted_share = 1;

  static constexpr auto fields() {
    using config::at_least;
    using config::field;
    using C = Transformer;
    return config::Fields{
        field<&C::num_layers>("Blocks.", config::between(1, 10'000)),
        field<&C::hidden_size>("Width of the residual stream.", at_least(1)),
        field<&C::num_heads>("Query heads.", at_least(1)),
        field<&C::num_kv_heads>("Key and value heads.", at_least(1)),
        field<&C::head_size>("Features of a head; 0: hidden_size / num_heads.", at_least(0)),
        field<&C::intermediate_size>("Width inside each feed-forward layer.", at_least(1)),
        field<&C::gated>("Feed-forward layers have a gate (SwiGLU), and norms have no bias (RMSNorm)."),
        field<&C::biases>("Linear layers have biases."),
        field<&C::position_embeddings>("Positions are learned embeddings."),
        field<&C::vocab_size>("Rows of the embedding.", at_least(1)),
        field<&C::sequence_length>("Tokens of a sequence.", at_least(1)),
        field<&C::tied>("The embedding is the output layer too."),
        field<&C::causal>("A token sees only the tokens before it."),
        field<&C::predicted_share>("Share of the tokens whose loss is computed.", config::fraction & config::positive),
    };
  }

  std::int64_t size_of_head() const { return head_size > 0 ? head_size : hidden_size / num_heads; }
  /// Width of all query heads together.
  std::int64_t query_size() const { return head_size > 0 ? head_size * num_heads : hidden_size; }
  std::int64_t kv_size() const { return num_kv_heads * size_of_head(); }
  /// Number of matrices that read or write the feed-forward layer's inner features.
  std::int64_t num_feed_forward_matrices() const { return gated ? 3 : 2; }

  std::int64_t embedding_parameters() const { return vocab_size * hidden_size; }
  std::int64_t norm_parameters() const { return gated ? hidden_size : 2 * hidden_size; }
  /// Weights of the block's matrices alone.
  std::int64_t layer_matrix_parameters() const {
    return hidden_size * (query_size() + 2 * kv_size()) + query_size() * hidden_size +
           num_feed_forward_matrices() * hidden_size * intermediate_size;
  }
  std::int64_t layer_parameters() const {
    const std::int64_t bias = biases ? query_size() + 2 * kv_size() + hidden_size +
                                           (num_feed_forward_matrices() - 1) * intermediate_size + hidden_size
                                     : 0;
    return layer_matrix_parameters() + bias + 2 * norm_parameters();
  }
  std::int64_t num_parameters() const {
    return num_layers * layer_parameters() + (tied ? 1 : 2) * embedding_parameters() +
           (position_embeddings ? sequence_length * hidden_size : 0) + norm_parameters();
  }

  bool operator==(const Transformer&) const = default;
};

}  // namespace trainctl::cluster

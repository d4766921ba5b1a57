// What other folders must know of each network, beside its config struct. A network that leaves a fact out does not
// compile. Part of model/config.h; without LibTorch.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/traits.h"

namespace trainctl::model {

/// numbers: images, or rows of a table. any: the layers of the config decide.
enum class Input { tokens, images, numbers, any };

/// per_sample, per_token: classes of a sample or of each token; one class may be a number (regression).
/// next_tokens, masked_tokens: rows over the vocabulary. target_tokens: the same for the tokens of a second sequence,
/// as an encoder-decoder gives. per_pixel: an image of classes, as large as the input.
enum class Output { per_sample, per_token, next_tokens, masked_tokens, target_tokens, per_pixel };

/// The outputs that a network can be built with.
class Outputs {
 public:
  constexpr Outputs(std::initializer_list<Output> outputs) {
    for (const Output output : outputs) bits_ |= 1U << static_cast<unsigned>(output);
  }
  constexpr bool contains(Output output) const { return (bits_ & 1U << static_cast<unsigned>(output)) != 0; }
  constexpr int size() const { return std::popcount(bits_); }

 private:
  unsigned bits_ = 0;
};

/// Which padding a network for sequences takes: none, in classification only, or always.
enum class Padding { none, in_classification, always };

/// Facts of a kind of network, whatever its sizes.
struct ModelTraits {
  config::Stated<Input> input;
  config::Stated<Outputs> outputs;
  config::Stated<Padding> padding;
  config::Stated<bool> has_token_types;
  config::Stated<bool> has_kv_cache;      // generation may keep keys and values of earlier tokens
  config::Stated<bool> is_recurrent;      // computes one token after the other, in an operator of its own
  config::Stated<bool> has_convolutions;  // channels_last may make it faster

  // Parameters by name; "" where the network has none.
  config::Stated<std::string_view> embedding;    // [vocabulary or buckets, size]
  config::Stated<std::string_view> tied_output;  // what published files call the output layer that is the embedding
  config::Stated<std::string_view> classifier;   // [classes, size]

  // Published networks.
  config::Stated<std::string_view> transformers_type;    // model_type in config.json; "": transformers lacks it
  config::Stated<std::string_view> transformers_prefix;  // of names in transformers, which bare networks lack: "bert."
  config::Stated<bool> has_transformers_names;  // false: pretrained converts names and shapes of transformers' weights
  config::Stated<bool> is_in_timm;
};

/// Sizes that the config itself sets; null where the data decides, or the network has no such size.
struct OwnSizes {
  config::Stated<std::optional<std::int64_t>> num_classes;
  config::Stated<std::optional<std::int64_t>> vocab_size;
  config::Stated<std::optional<std::int64_t>> max_position_embeddings;
  bool extends_positions = false;  // longer sequences are sound, since their length scales the positions
};

/// Sizes of a network that has classes and no vocabulary.
inline OwnSizes only_classes(const config::AutoOr<std::int64_t>& num_classes) {
  return {.num_classes = num_classes.value, .vocab_size = std::nullopt, .max_position_embeddings = std::nullopt};
}

/// A number of heads or features that ranks share when they share layers (distributed.tensor): they must divide it.
struct SplitSize {
  std::string_view key;
  std::int64_t size;
};
/// Empty: the network's layers can't be split.
using SplitSizes = std::vector<SplitSize>;

struct ImageSides {
  std::int64_t height;
  std::int64_t width;
};

/// What a network's rules may look at in the rest of the experiment.
struct Surroundings {
  std::string_view task;                      // its kind
  Output output;                              // which the task needs
  bool has_classes;                           // the task's targets are classes, of samples or of tokens
  std::optional<ImageSides> images;           // null where only the data knows
  std::int64_t num_channels = 0;              // of images; 0: samples are none
  std::optional<std::int64_t> num_outputs{};  // that targets need; null where only the data knows
  std::optional<std::int64_t> longest{};      // tokens of a sample; null where only the data knows
};

/// The rules that a network's keys break together with each other and the rest of the experiment.
using BrokenRules = std::vector<config::BrokenRule>;

/// Sequences of the text, and sides of the images, in the experiment that `config new` writes.
inline constexpr std::int64_t kStarterLength = 128;
inline constexpr std::int64_t kStarterImageSide = 28;

/// Heads share the width evenly.
inline BrokenRules uneven_heads(std::int64_t hidden_size, std::int64_t num_heads) {
  if (hidden_size % num_heads == 0) return {};
  return {{{"model.hidden_size", "model.num_heads", "model.kind"},
           "expected a multiple of model.num_heads, " + std::to_string(num_heads) + ", got " +
               std::to_string(hidden_size)}};
}

/// The head isn't the one that the task needs.
inline config::BrokenRule wrong_head(const Surroundings& around, std::string_view wanted, std::string_view head) {
  return {{"model.head", "model.kind", "model.num_classes", "task.kind"},
          "task " + std::string(around.task) + " needs " + std::string(wanted) + ", got " + std::string(head)};
}

/// Does not compile unless the config struct of a network states all that other folders ask for.
template <class Network>
consteval bool states_its_traits() {
  static_assert(config::WithTraits<Network, ModelTraits>,
                "a network's config has `static constexpr ModelTraits traits{...}`");
  static_assert(
      requires(const Network& network) { requires std::same_as<OwnSizes, decltype(network.sizes())>; },
      "a network's config has `OwnSizes sizes() const`");
  static_assert(
      requires(const Network& network) { requires std::same_as<SplitSizes, decltype(network.split_sizes())>; },
      "a network's config has `SplitSizes split_sizes() const`");
  static_assert(
      requires(const Network& network, const Surroundings& around) {
        requires std::same_as<BrokenRules, decltype(network.broken_rules(around))>;
      },
      "a network's config has `BrokenRules broken_rules(const Surroundings&) const`");
  static_assert(
      requires { requires std::same_as<Network, decltype(Network::starter())>; },
      "a network's config has `static Network starter()`, its sizes in `config new`");
  constexpr const ModelTraits& traits = Network::traits;
  static_assert((*traits.input == Input::tokens) != traits.embedding.value.empty(),
                "a network for tokens, and no other, has an embedding");
  static_assert(!traits.has_kv_cache || traits.outputs.value.contains(Output::next_tokens) ||
                    traits.outputs.value.contains(Output::target_tokens),
                "only a network that predicts next tokens has a KV cache");
  return true;
}

}  // namespace trainctl::model

#include "model/networks.h"

#include <string>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::model {

ImageShape image_shape(const InputSpec& input, std::string_view network) {
  if (input.shape.size() != 3)
    throw core::Error("model " + std::string(network) + " needs images [C, H, W], but the dataset's samples have " +
                      std::to_string(input.shape.size()) + " dim" + (input.shape.size() == 1 ? "" : "s"))
        .hint("take an image dataset, or a model for such samples");
  const ImageShape shape{.channels = input.shape[0], .height = input.shape[1], .width = input.shape[2]};
  if (shape.channels < 1 || shape.height < 1 || shape.width < 1)
    throw core::Error("model " + std::string(network) + " needs images of at least one pixel, got " + shape.text());
  return shape;
}

std::int64_t num_outputs_or_one(const config::AutoOr<std::int64_t>& own, const InputSpec& input) {
  return own.is_auto() && input.num_classes == 0 ? 1 : num_outputs(own, input);
}

std::int64_t num_outputs(const config::AutoOr<std::int64_t>& own, const InputSpec& input) {
  if (own.is_auto()) {
    if (input.num_classes < 1)
      throw core::Error("the dataset's number of classes is unknown").hint("set model.num_classes");
    return input.num_classes;
  }
  if (input.num_classes > 0 && *own.value != input.num_classes)
    throw core::Error("model.num_classes is " + core::format_count(*own.value) + ", but the dataset has " +
                      core::format_count(input.num_classes) + " classes")
        .hint("leave model.num_classes at auto");
  return *own.value;
}

std::int64_t sequence_length(const InputSpec& input, std::string_view network, std::int64_t max_position_embeddings) {
  if (input.shape.size() != 1)
    throw core::Error("model " + std::string(network) + " needs sequences of tokens, but the dataset's samples have " +
                      std::to_string(input.shape.size()) + " dims")
        .hint("take a text dataset, or a model for images");
  if (input.shape[0] > max_position_embeddings)
    throw core::Error("the dataset's sequences have up to " + core::format_count(input.shape[0]) +
                      " tokens, but model " + std::string(network) + " has positions for " +
                      core::format_count(max_position_embeddings))
        .hint("set model.max_position_embeddings higher, or shorten the dataset's sequences");
  return input.shape[0];
}

std::int64_t vocabulary(const config::AutoOr<std::int64_t>& own, const InputSpec& input) {
  if (own.is_auto()) {
    core::ensure(input.vocab_size > 0, "sequences come with a vocabulary");
    return input.vocab_size;
  }
  if (input.vocab_size > *own.value)
    throw core::Error("the dataset's token ids go up to " + core::format_count(input.vocab_size - 1) +
                      ", but model.vocab_size is " + core::format_count(*own.value))
        .hint("leave model.vocab_size at auto");
  return *own.value;
}

void check_padding(const std::optional<std::int64_t>& pad_token_id, std::int64_t vocab_size) {
  if (pad_token_id.value_or(0) >= vocab_size)
    throw core::Error("model.pad_token_id is " + std::to_string(*pad_token_id) + ", but the vocabulary has " +
                      std::to_string(vocab_size) + " tokens")
        .hint("set model.pad_token_id to null if padding has no id");
}

void check_heads(std::int64_t hidden_size, std::int64_t num_heads) {
  if (hidden_size % num_heads != 0)
    throw core::Error("model.hidden_size must be a multiple of model.num_heads: " + std::to_string(hidden_size) +
                      " and " + std::to_string(num_heads));
}

}  // namespace trainctl::model

// The `dataset:` kind of conversations. Part of dataset/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "dataset/facts.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// Whose tokens are targets.
enum class LossOn { assistant, last, all };
/// What happens to a conversation with more than seq_len tokens.
enum class TooLong { cut, drop };
/// How conversations fill rows of seq_len tokens.
enum class Packing { best_fit, none };

/// The name of the template that needs no file.
inline constexpr std::string_view kChatMl = "chatml";

/// Files with a conversation per line.
struct ChatFiles {
  static constexpr std::string_view short_form = "files";  // train: chat.jsonl
  std::vector<std::string> files;
  std::optional<std::string> messages;
  std::int64_t max_line_bytes = 64 << 20;

  static constexpr auto fields() {
    using config::field;
    using C = ChatFiles;
    return config::Fields{
        field<&C::files>("Files of JSON lines, in this order.", config::required & config::non_empty),
        field<&C::messages>("The member with the turns: objects with `role` and `content`, or with `from` and `value`. "
                            "Null takes `messages`, `conversations`, or `prompt` and `completion`.",
                            config::non_empty),
        field<&C::max_line_bytes>("A longer line is an error.", config::at_least(1)),
    };
  }
};

/// Conversations as the tokenizer's chat template writes them; next-token prediction of the assistant's turns.
struct ChatConfig {
  static constexpr std::string_view kind = "chat";
  ChatFiles train;
  std::optional<ChatFiles> eval;
  std::optional<ChatFiles> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  std::string tokenizer;
  std::optional<std::string> chat_template{};
  std::optional<std::string> date{};
  LossOn loss_on = LossOn::assistant;
  std::int64_t seq_len = 1024;
  TooLong too_long = TooLong::cut;
  Packing packing = Packing::best_fit;
  std::string cache_dir = ".cache/trainctl";

  DatasetFacts facts() const {
    return {.samples = TokenFacts{.max_length = seq_len,
                                  .tokenizer = tokenizer,
                                  .length_group_batches = packing == Packing::none ? 50 : 0,
                                  .is_stream = false},
            .targets = Targets::next_tokens,
            .num_classes = 0,
            .class_names = std::vector<std::string>(),
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction},
            .can_fold = true};
  }
  static constexpr auto fields() {
    using config::field;
    using C = ChatConfig;
    return config::Fields{
        field<&C::train>("Conversations to train on.", config::required),
        field<&C::eval>("Conversations to evaluate on."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>(
            "Without `eval`: about this share of the training conversations is kept for evaluation, chosen by a hash "
            "of each one's tokens.",
            config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other conversations for evaluation and test.", config::any_seed),
        field<&C::tokenizer>("As in text_lm. Its directory has the chat template and the special tokens.",
                             config::required & config::non_empty),
        field<&C::chat_template>(
            "A file with a chat template (Jinja), or `chatml`. Null takes chat_template.jinja or tokenizer_config.json "
            "beside the tokenizer.",
            config::non_empty),
        field<&C::date>(
            "What a template is told if it asks for today's date, as 2024-07-26. Null makes such a template an error, "
            "since its tokens would differ from day to day.",
            config::non_empty),
        field<&C::loss_on>(
            "`assistant`: the model learns each turn of the assistant, with the token that ends it; `last`: only a "
            "conversation's last one; `all`: every token."),
        field<&C::seq_len>("Tokens in a row.", config::at_least(2)),
        field<&C::too_long>(
            "Conversations with more tokens are cut at their end, or dropped. The start of a run tells how many."),
        field<&C::packing>(
            "`best_fit`: a row has as many conversations as fit, and no token attends to another conversation; `none`: "
            "one conversation in a row, padded to the longest of its batch."),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

}  // namespace trainctl::dataset

// The `dataset:` kind of preferences. Part of dataset/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "dataset/chat_config.h"
#include "dataset/facts.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// Files with a pair of answers per line.
struct PreferenceFiles {
  static constexpr std::string_view short_form = "files";  // train: pairs.jsonl
  std::vector<std::string> files;
  std::int64_t max_line_bytes = 64 << 20;

  static constexpr auto fields() {
    using config::field;
    using C = PreferenceFiles;
    return config::Fields{
        field<&C::files>("Files of JSON lines, in this order.", config::required & config::non_empty),
        field<&C::max_line_bytes>("A longer line is an error.", config::at_least(1)),
    };
  }
  ChatFiles as_chat() const { return {.files = files, .messages = std::nullopt, .max_line_bytes = max_line_bytes}; }
};

/// Two conversations that differ in their last turn, of which one is preferred.
struct PreferenceConfig {
  static constexpr std::string_view kind = "preference";
  PreferenceFiles train;
  std::optional<PreferenceFiles> eval;
  std::optional<PreferenceFiles> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  std::string tokenizer;
  std::optional<std::string> chat_template{};
  std::optional<std::string> date{};
  std::int64_t seq_len = 2048;
  TooLong too_long = TooLong::drop;
  Packing packing = Packing::best_fit;
  std::string cache_dir = ".cache/trainctl";

  /// Returns how the conversations are read; of each, the last turn is learned.
  ChatConfig as_chat() const {
    const auto chat = [](const std::optional<PreferenceFiles>& set) {
      return set ? std::optional(set->as_chat()) : std::nullopt;
    };
    return {.train = train.as_chat(),
            .eval = chat(eval),
            .test = chat(test),
            .eval_fraction = eval_fraction,
            .test_fraction = test_fraction,
            .split_seed = split_seed,
            .tokenizer = tokenizer,
            .chat_template = chat_template,
            .date = date,
            .loss_on = LossOn::last,
            .seq_len = seq_len,
            .too_long = too_long,
            .packing = packing,
            .cache_dir = cache_dir};
  }
  DatasetFacts facts() const {
    DatasetFacts facts = as_chat().facts();
    facts.targets = Targets::preferences;
    return facts;
  }
  static constexpr auto fields() {
    using config::field;
    using C = PreferenceConfig;
    return config::Fields{
        field<&C::train>(
            "Pairs to train on. A line has `chosen` and `rejected`, and the `prompt` of both or conversations that "
            "begin alike; each is a text or a list of turns (`role`, `content`).",
            config::required),
        field<&C::eval>("Pairs to evaluate on."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>(
            "Without `eval`: about this share of the training pairs is kept for evaluation, chosen by a hash of each "
            "one's tokens.",
            config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other pairs for evaluation and test.", config::any_seed),
        field<&C::tokenizer>("As in chat.", config::required & config::non_empty),
        field<&C::chat_template>("As in chat.", config::non_empty),
        field<&C::date>("As in chat.", config::non_empty),
        field<&C::seq_len>("Tokens in a row, which has both conversations of a pair: each may have half as many.",
                           config::at_least(4)),
        field<&C::too_long>(
            "A pair of which one conversation has more tokens is dropped, or that conversation is cut at its end. The "
            "start of a run tells how many."),
        field<&C::packing>(
            "`best_fit`: a row has as many pairs as fit; `none`: one pair in a row, padded to the longest of its "
            "batch. No token attends to another conversation."),
        field<&C::cache_dir>(text_help::cache_dir, config::non_empty),
    };
  }
};

}  // namespace trainctl::dataset

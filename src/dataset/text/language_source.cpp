#include "dataset/text/language_source.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace trainctl::dataset {
namespace {

template <class Config>
PreparedStores prepare_both(const Config& config, const tokenizer::Tokenizer& tokenizer, StoreKind kind,
                            const PrepareOptions& options) {
  const auto prepare_one = [&](const TextFiles& files) {
    return prepare_text({.files = files, .tokenizer = tokenizer, .kind = kind, .cache_dir = config.cache_dir}, options);
  };
  PreparedStores stores{.train = prepare_one(config.train), .eval = std::nullopt, .test = std::nullopt};
  if (config.eval) stores.eval = prepare_one(*config.eval);
  if (config.test && options.tests == TestTexts::prepared) stores.test = prepare_one(*config.test);
  return stores;
}

}  // namespace

std::shared_ptr<const tokenizer::Tokenizer> open_tokenizer(const std::string& name) {
  return name == "bytes" ? tokenizer::byte_tokenizer() : tokenizer::load_tokenizer(name);
}

void check_max_length(const tokenizer::Tokenizer& tokenizer, std::int64_t max_length, std::int64_t texts_per_row) {
  const tokenizer::Encoding empty = texts_per_row == 2 ? tokenizer.encode_pair("", "", {}) : tokenizer.encode("", {});
  const std::int64_t num_special = std::ranges::count(empty.is_special, 1);
  if (num_special <= max_length) return;
  throw core::Error("dataset.max_length: got " + core::format_count(max_length) + "; the tokenizer puts " +
                    core::format_count(num_special) + " special tokens around " +
                    (texts_per_row == 2 ? "a pair of texts" : "a text"))
      .hint("a dataset.max_length above " + core::format_count(num_special) + ", with room for the text");
}

PrepareOptions prepare_options(const LoaderOptions& options) {
  return {.verification = Verification::trust_times,
          .tests = options.evaluated == EvaluatedSet::test ? TestTexts::prepared : TestTexts::left_alone,
          .tell = options.tell};
}

PreparedStores prepare_stores(const TextLmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  return prepare_both(config, tokenizer, StoreKind::text, options);
}

PreparedStores prepare_stores(const TextMlmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  return prepare_both(config, tokenizer, StoreKind::text_with_words, options);
}

TokenRanges token_ranges(const PreparedStores& stores, const Split& split) {
  const auto whole = [](const PreparedStore& prepared, std::string name) {
    return TokenRange{
        .store = prepared.store, .begin = 0, .end = prepared.store->num_tokens(), .name = std::move(name)};
  };
  TokenRanges ranges{.train = whole(stores.train, "the training text"), .eval = {}, .test = {}};
  const auto num_tokens = static_cast<double>(ranges.train.end);
  const auto take_end = [&](double fraction, const std::string& key, const std::string& use) {
    TokenRange end = ranges.train;
    ranges.train.end -= static_cast<std::int64_t>(fraction * num_tokens);
    ranges.train.name = "what dataset." + key + " leaves of the training text";
    end.begin = ranges.train.end;
    end.name = "the " + use + " text, which is the share dataset." + key + " of the training text,";
    return end;
  };
  if (stores.eval)
    ranges.eval = whole(*stores.eval, "the evaluation text");
  else if (split.eval_fraction > 0)
    ranges.eval = take_end(split.eval_fraction, "eval_fraction", "evaluation");
  if (stores.test)
    ranges.test = whole(*stores.test, "the test text");
  else if (split.test_fraction > 0)
    ranges.test = take_end(split.test_fraction, "test_fraction", "test");
  return ranges;
}

void check_sequences(const TokenRange& range, std::int64_t least, std::int64_t length) {
  if (range.size() >= least) return;
  const std::size_t share = range.name.find("dataset.");
  throw core::Error(range.name + " has " + core::format_count(range.size()) + " tokens, too few for one sequence of " +
                    core::format_count(length))
      .hint(share == std::string::npos ? "more text, or a smaller dataset.seq_len"
                                       : "another " + range.name.substr(share, range.name.find(' ', share) - share) +
                                             ", more text, or a smaller dataset.seq_len");
}

}  // namespace trainctl::dataset

#include "dataset/text/language_source.h"

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
  PreparedStores stores{.train = prepare_one(config.train), .eval = std::nullopt};
  if (config.eval) stores.eval = prepare_one(*config.eval);
  return stores;
}

}  // namespace

std::shared_ptr<const tokenizer::Tokenizer> open_tokenizer(const std::string& name) {
  return name == "bytes" ? tokenizer::byte_tokenizer() : tokenizer::load_tokenizer(name);
}

PrepareOptions prepare_options(const LoaderOptions& options) {
  return {.verification = Verification::trust_times, .tell = options.tell};
}

PreparedStores prepare_stores(const TextLmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  return prepare_both(config, tokenizer, StoreKind::text, options);
}

PreparedStores prepare_stores(const TextMlmConfig& config, const tokenizer::Tokenizer& tokenizer,
                              const PrepareOptions& options) {
  return prepare_both(config, tokenizer, StoreKind::text_with_words, options);
}

TokenRanges token_ranges(const PreparedStores& stores, double eval_fraction) {
  const auto whole = [](const PreparedStore& prepared, std::string name) {
    return TokenRange{
        .store = prepared.store, .begin = 0, .end = prepared.store->num_tokens(), .name = std::move(name)};
  };
  TokenRanges ranges{.train = whole(stores.train, "the training text"), .eval = {}};
  if (stores.eval) {
    ranges.eval = whole(*stores.eval, "the evaluation text");
  } else if (eval_fraction > 0) {
    ranges.eval = ranges.train;
    ranges.train.end -= static_cast<std::int64_t>(eval_fraction * static_cast<double>(ranges.train.end));
    ranges.train.name = "what dataset.eval_fraction leaves of the training text";
    ranges.eval.begin = ranges.train.end;
    ranges.eval.name = "the evaluation text, which is the share dataset.eval_fraction of the training text,";
  }
  return ranges;
}

void check_sequences(const TokenRange& range, std::int64_t least, std::int64_t length) {
  if (range.size() >= least) return;
  const bool is_share = range.name.find("eval_fraction") != std::string::npos;
  throw core::Error(range.name + " has " + core::format_count(range.size()) + " tokens, too few for one sequence of " +
                    core::format_count(length))
      .hint(is_share ? "another dataset.eval_fraction, more text, or a smaller dataset.seq_len"
                     : "more text, or a smaller dataset.seq_len");
}

}  // namespace trainctl::dataset

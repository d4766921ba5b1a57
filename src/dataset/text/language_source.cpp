#include "dataset/text/language_source.h"

#include "core/error.h"

namespace trainctl {

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& name) {
  return name == "bytes" ? byte_tokenizer() : load_tokenizer(name);
}

TokenRanges open_ranges(const LanguageText& text, const Tokenizer& tokenizer, TokenMarks marks,
                        const LoaderOptions& options) {
  const auto open = [&](const TextFiles& files) {
    const auto store = std::make_shared<const TokenStore>(prepare_tokens(
        {.files = files, .tokenizer = tokenizer, .marks = marks, .cache_dir = text.cache_dir, .tell = options.tell}));
    return TokenRange{.store = store, .begin = 0, .end = store->num_tokens()};
  };
  TokenRanges ranges{.train = open(text.train), .eval = {}};
  if (text.eval) {
    ranges.eval = open(*text.eval);
  } else if (text.eval_fraction > 0) {
    ranges.eval = ranges.train;
    ranges.train.end -= static_cast<std::int64_t>(text.eval_fraction * static_cast<double>(ranges.train.end));
    ranges.eval.begin = ranges.train.end;
  }
  return ranges;
}

}  // namespace trainctl

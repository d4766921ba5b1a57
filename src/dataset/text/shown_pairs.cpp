// Pairs of texts as a person may look at them.
#include <algorithm>

#include "dataset/files/named_files.h"
#include "dataset/shown_text.h"
#include "dataset/text/language_source.h"
#include "dataset/text/seq2seq_rows.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kMostLongest = 5;

/// Appends a text's tokens. Those beyond the longest that is permitted are cut at `side`, but for the last one.
void append_shown(const std::vector<std::int64_t>& ids, std::int64_t max_length, tokenizer::TruncationSide side,
                  TokenFate fate, ShownText& text) {
  const std::int64_t num_cut = std::max<std::int64_t>(0, std::ssize(ids) - max_length);
  const std::int64_t first_cut = side == tokenizer::TruncationSide::left ? 0 : max_length - 1;
  for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
    const bool stays = i < first_cut || i >= first_cut + num_cut;
    text.tokens.push_back({static_cast<std::int32_t>(ids[static_cast<std::size_t>(i)]), stays ? fate : TokenFate::cut});
  }
}

ShownText text_of_pair(const TokenStore& store, const TextSeq2SeqConfig& config, tokenizer::TruncationSide side,
                       std::int64_t row) {
  const StoredPair pair(store, row);
  std::vector<std::int64_t> source(static_cast<std::size_t>(pair.source_length()));
  std::vector<std::int64_t> target(static_cast<std::size_t>(pair.target_length()));
  pair.copy_source(source, side);
  pair.copy_target(target, side);
  ShownText text{.place = "pair " + std::to_string(row + 1), .tokens = {}};
  append_shown(source, config.max_source_length, side, TokenFate::seen, text);
  append_shown(target, config.max_target_length, side, TokenFate::learned, text);
  return text;
}

}  // namespace

std::optional<ShownConversations> shown_pairs(const SourceConfig& source, const ShowRequest& request) {
  const auto* const pairs = source.get_if<TextSeq2SeqConfig>();
  if (pairs == nullptr || (request.of_evaluation && !pairs->eval)) return std::nullopt;
  TextSeq2SeqConfig one = *pairs;
  if (request.of_evaluation) one.train = *one.eval;
  one.eval.reset();
  one.test.reset();
  one = with_files_named(one);
  PrepareOptions options;
  options.tell = request.tell;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = open_tokenizer(one.tokenizer);
  const PreparedStores stores = prepare_stores(one, *tokenizer, options);
  const TokenStore& store = *stores.train.store;
  ShownConversations shown;
  shown.num_conversations = store.num_documents();
  for (std::int64_t row = 0; row < store.num_documents(); ++row) {
    ShownText text = text_of_pair(store, one, tokenizer->truncation_side(), row);
    for (const ShownToken& token : text.tokens) ++shown.num_tokens.at(static_cast<std::size_t>(token.fate));
    shown.longest.push_back({text.place, std::ssize(text.tokens)});
    if (std::ssize(shown.texts) < request.most_texts) shown.texts.push_back(std::move(text));
  }
  std::stable_sort(shown.longest.begin(), shown.longest.end(),
                   [](const LongText& a, const LongText& b) { return a.num_tokens > b.num_tokens; });
  shown.longest.resize(std::min(shown.longest.size(), kMostLongest));
  return shown;
}

}  // namespace trainctl::dataset

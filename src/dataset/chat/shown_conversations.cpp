#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dataset/chat/packing.h"
#include "dataset/collate/token_rows.h"
#include "dataset/files/named_files.h"
#include "dataset/shown_text.h"
#include "dataset/text/language_source.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kMostLongest = 5;

/// Reads a store's conversations, and counts their tokens by fate. Pairs share their fate.
class ConversationView {
 public:
  /// `in_piece`: how many conversations a row has together: one, or a pair.
  ConversationView(const TokenStore& store, ChatConfig config, std::int64_t in_piece)
      : store_(store), config_(std::move(config)), in_piece_(in_piece), most_tokens_(config_.seq_len / in_piece) {}

  ShownConversations show(std::int64_t most_texts) const {
    ShownConversations shown;
    shown.num_conversations = store_.num_documents();
    std::vector<std::int64_t> kept;
    for (std::int64_t row = 0; row < store_.num_documents(); row += in_piece_) {
      std::vector<ShownText> texts = texts_of(row);
      const std::int64_t num_kept = count_tokens(texts, shown);
      if (num_kept > 0) kept.push_back(num_kept);
      for (ShownText& text : texts) {
        shown.longest.push_back({text.place, std::ssize(text.tokens)});
        if (std::ssize(shown.texts) < most_texts * in_piece_) shown.texts.push_back(std::move(text));
      }
    }
    std::stable_sort(shown.longest.begin(), shown.longest.end(),
                     [](const LongText& a, const LongText& b) { return a.num_tokens > b.num_tokens; });
    shown.longest.resize(std::min(shown.longest.size(), kMostLongest));
    shown.num_rows =
        config_.packing == Packing::best_fit ? std::ssize(pack_best_fit(kept, config_.seq_len)) : std::ssize(kept);
    if (config_.packing == Packing::best_fit)
      shown.num_tokens[static_cast<std::size_t>(TokenFate::padding)] =
          shown.num_rows * config_.seq_len - shown.num_tokens[0] - shown.num_tokens[1];
    return shown;
  }

 private:
  /// Adds the tokens of a piece. Returns how many of them a row gets.
  static std::int64_t count_tokens(const std::vector<ShownText>& texts, ShownConversations& shown) {
    std::array<std::int64_t, kNumFates> counts{};
    for (const ShownText& text : texts)
      for (const ShownToken& token : text.tokens) ++counts.at(static_cast<std::size_t>(token.fate));
    for (std::size_t i = 0; i < counts.size(); ++i) shown.num_tokens.at(i) += counts.at(i);
    return counts.at(static_cast<std::size_t>(TokenFate::learned)) +
           counts.at(static_cast<std::size_t>(TokenFate::seen));
  }

  /// Returns the conversations from `first` on that a row has together. If nothing is learned of one, or one is
  /// dropped, all are left out, so that all of their tokens are cut.
  std::vector<ShownText> texts_of(std::int64_t first) const {
    std::vector<ShownText> texts;
    bool is_left_out = false;
    for (std::int64_t row = first; row < first + in_piece_; ++row) {
      texts.push_back(text_of(row));
      const auto& tokens = texts.back().tokens;
      const bool is_learned =
          std::ranges::any_of(tokens, [](const ShownToken& token) { return token.fate == TokenFate::learned; });
      const bool is_dropped = std::ssize(tokens) > most_tokens_ && config_.too_long == TooLong::drop;
      is_left_out = is_left_out || is_dropped || !is_learned;
    }
    if (is_left_out)
      for (ShownText& text : texts)
        for (ShownToken& token : text.tokens) token.fate = TokenFate::cut;
    return texts;
  }

  ShownText text_of(std::int64_t row) const {
    const auto count = static_cast<std::size_t>(store_.document_length(row));
    std::vector<std::int64_t> ids(count);
    std::vector<std::int64_t> labels(count);
    store_.copy(store_.document_start(row), ids);
    store_.copy_labels(store_.document_start(row), labels);
    ShownText text{.place = place_of_row(row), .tokens = {}};
    for (std::size_t i = 0; i < count; ++i) {
      // The first token is nobody's successor.
      const bool learns = i > 0 && labels[i] != kNoTarget;
      const bool is_cut = static_cast<std::int64_t>(i) >= most_tokens_;
      const TokenFate fate = is_cut ? TokenFate::cut : learns ? TokenFate::learned : TokenFate::seen;
      text.tokens.push_back({static_cast<std::int32_t>(ids[i]), fate});
    }
    return text;
  }

  std::string place_of_row(std::int64_t row) const {
    if (in_piece_ == 1) return "conversation " + std::to_string(row + 1);
    return "pair " + std::to_string(row / 2 + 1) + (row % 2 == 0 ? ", chosen" : ", rejected");
  }

  const TokenStore& store_;
  ChatConfig config_;
  std::int64_t in_piece_;
  std::int64_t most_tokens_;
};

/// Returns the config with the set that is shown alone.
template <class Config>
Config with_shown_set(Config config, const ShowRequest& request) {
  if (request.of_evaluation) {
    if (!config.eval)
      throw core::Error("dataset.eval is not set")
          .hint("--split train shows the conversations that eval_fraction divides");
    config.train = *config.eval;
  }
  config.eval.reset();
  config.test.reset();
  return with_files_named(config);
}

ShownConversations shown_of(const ChatConfig& config, const ShowRequest& request, const PrepareOptions& options) {
  const ChatConfig one = with_shown_set(config, request);
  const PreparedStores stores = prepare_stores(one, *open_tokenizer(one.tokenizer), options);
  return ConversationView(*stores.train.store, one, 1).show(request.most_texts);
}

ShownConversations shown_of(const PreferenceConfig& config, const ShowRequest& request, const PrepareOptions& options) {
  const PreferenceConfig one = with_shown_set(config, request);
  const PreparedStores stores = prepare_stores(one, *open_tokenizer(one.tokenizer), options);
  return ConversationView(*stores.train.store, one.as_chat(), 2).show(request.most_texts);
}

}  // namespace

std::optional<ShownConversations> shown_conversations(const SourceConfig& source, const ShowRequest& request) {
  PrepareOptions options;
  options.tell = request.tell;
  if (const auto* const chat = source.get_if<ChatConfig>()) return shown_of(*chat, request, options);
  if (const auto* const pairs = source.get_if<PreferenceConfig>()) return shown_of(*pairs, request, options);
  return std::nullopt;
}

}  // namespace trainctl::dataset

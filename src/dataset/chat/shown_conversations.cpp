#include <algorithm>

#include "core/error.h"
#include "dataset/chat/packing.h"
#include "dataset/collate/token_rows.h"
#include "dataset/files/named_files.h"
#include "dataset/shown_text.h"
#include "dataset/text/language_source.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kMostLongest = 5;

/// Reads a store's conversations, and counts their tokens by fate.
class ConversationView {
 public:
  ConversationView(const TokenStore& store, const ChatConfig& config) : store_(store), config_(config) {}

  ShownConversations show(std::int64_t most_texts) const {
    ShownConversations shown;
    shown.num_conversations = store_.num_documents();
    std::vector<std::int64_t> kept;
    for (std::int64_t row = 0; row < store_.num_documents(); ++row) {
      ShownText text = text_of(row);
      std::array<std::int64_t, kNumFates> counts{};
      for (const ShownToken& token : text.tokens) ++counts.at(static_cast<std::size_t>(token.fate));
      for (std::size_t i = 0; i < counts.size(); ++i) shown.num_tokens.at(i) += counts.at(i);
      if (counts[0] > 0) kept.push_back(std::min(std::ssize(text.tokens), config_.seq_len));
      shown.longest.push_back({text.place, std::ssize(text.tokens)});
      if (std::ssize(shown.texts) < most_texts) shown.texts.push_back(std::move(text));
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
  /// A conversation of which nothing is learned is left out, so that all of its tokens are cut.
  ShownText text_of(std::int64_t row) const {
    const auto count = static_cast<std::size_t>(store_.document_length(row));
    std::vector<std::int64_t> ids(count);
    std::vector<std::int64_t> labels(count);
    store_.copy(store_.document_start(row), ids);
    store_.copy_labels(store_.document_start(row), labels);
    const bool is_dropped = std::ssize(ids) > config_.seq_len && config_.too_long == TooLong::drop;
    const auto room = static_cast<std::size_t>(is_dropped ? 0 : config_.seq_len);
    bool is_learned = false;
    ShownText text{.place = "conversation " + std::to_string(row + 1), .tokens = {}};
    for (std::size_t i = 0; i < count; ++i) {
      // The first token is nobody's successor.
      const bool learns = i < room && i > 0 && labels[i] != kNoTarget;
      is_learned = is_learned || learns;
      const TokenFate fate = i >= room ? TokenFate::cut : learns ? TokenFate::learned : TokenFate::seen;
      text.tokens.push_back({static_cast<std::int32_t>(ids[i]), fate});
    }
    if (!is_learned)
      for (ShownToken& token : text.tokens) token.fate = TokenFate::cut;
    return text;
  }

  const TokenStore& store_;
  const ChatConfig& config_;
};

}  // namespace

std::optional<ShownConversations> shown_conversations(const SourceConfig& source, const ShowRequest& request) {
  const auto* const chat = source.get_if<ChatConfig>();
  if (chat == nullptr) return std::nullopt;
  ChatConfig one = *chat;
  if (request.of_evaluation) {
    if (!one.eval)
      throw core::Error("dataset.eval is not set")
          .hint("--split train shows the conversations that eval_fraction divides");
    one.train = *one.eval;
  }
  one.eval.reset();
  one.test.reset();
  one = with_files_named(one);
  PrepareOptions options;
  options.tell = request.tell;
  const PreparedStores stores = prepare_stores(one, *open_tokenizer(one.tokenizer), options);
  return ConversationView(*stores.train.store, one).show(request.most_texts);
}

}  // namespace trainctl::dataset

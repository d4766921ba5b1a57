// WordPiece: takes the longest token that fits, from left to right. A word that tokens do not cover completely is
// unknown.
#include "core/utf8.h"
#include "tokenizer/model/model.h"

namespace trainctl::tokenizer {
namespace {

class WordPiece final : public Model {
 public:
  explicit WordPiece(WordPieceOptions options) : options_(std::move(options)) {
    unknown_ = options_.vocabulary.find(options_.unknown);
    const std::string& prefix = options_.continuing_prefix;
    for (std::uint32_t id = 0; id < vocabulary().end(); ++id) {
      const std::string& text = vocabulary().text(id);
      if (vocabulary().has(id) && text.starts_with(prefix) && vocabulary().find(text) == id)
        continuing_.add(std::string_view(text).substr(prefix.size()), id);
    }
    continuing_.finish();
  }

  void tokenize(std::string_view word, WordTokens& tokens, ModelRoom&) const override {
    if (word.size() > options_.max_chars && core::count_chars(word) > options_.max_chars)
      return add_unknown(word, tokens);
    const std::size_t before = tokens.ids.size();
    for (std::size_t begin = 0; begin < word.size();) {
      const TextMap& pieces = begin == 0 ? vocabulary().by_text() : continuing_;
      std::size_t end = std::min(word.size(), begin + pieces.longest());
      while (end > begin && end < word.size() && core::is_continuation(word[end])) --end;
      std::uint32_t id = TextMap::kNone;
      while (end > begin && (id = pieces.find(word.substr(begin, end - begin))) == TextMap::kNone)
        end -= core::decode_before(word, end).length;
      if (id == TextMap::kNone) {
        tokens.ids.resize(before);
        tokens.ends.resize(before);
        return add_unknown(word, tokens);
      }
      tokens.add(id, end);
      begin = end;
    }
  }

  const Vocabulary& vocabulary() const override { return options_.vocabulary; }
  std::optional<std::uint32_t> unknown() const override { return unknown_; }

 private:
  void add_unknown(std::string_view word, WordTokens& tokens) const {
    if (!unknown_)
      throw core::Error(options_.where + ": a word is not in the vocabulary, and neither is '" + options_.unknown +
                        "'");
    tokens.add(*unknown_, word.size());
  }

  WordPieceOptions options_;
  std::optional<std::uint32_t> unknown_;
  TextMap continuing_;  // continuing tokens without their prefix
};

}  // namespace

std::unique_ptr<Model> word_piece_model(WordPieceOptions options) {
  return std::make_unique<WordPiece>(std::move(options));
}

}  // namespace trainctl::tokenizer

#include "tokenizer/model/model.h"

namespace trainctl::tokenizer {
namespace {

/// Model whose words are whole tokens or unknown.
class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unknown, std::string where)
      : vocabulary_(std::move(vocabulary)), unknown_(vocabulary_.find(unknown)), where_(std::move(where)) {}
  void tokenize(std::string_view word, WordTokens& tokens, ModelRoom&) const override {
    const auto id = vocabulary_.find(word);
    if (!id && !unknown_) throw core::Error(where_ + ": a word is not in the vocabulary, and neither is unk_token");
    tokens.add(id ? *id : *unknown_, word.size());
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::optional<std::uint32_t> unknown() const override { return unknown_; }

 private:
  Vocabulary vocabulary_;
  std::optional<std::uint32_t> unknown_;
  std::string where_;
};

/// Reads merges as [["a", "b"], …] or in the older form ["a b", …].
std::vector<std::pair<std::string, std::string>> read_merges(const JsonCursor& json) {
  if (!json.value().is_array()) throw json.error("expected a list");
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(json.value().size());
  for (const Json& merge : json.value()) {
    const auto number = [&] { return "number " + std::to_string(merges.size()); };
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    } else if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      if (text.starts_with("#version")) continue;
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        throw json.error(number() + " is not two texts");
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      throw json.error(number() + " is not two texts");
    }
  }
  return merges;
}

std::unique_ptr<Model> read_bpe(const JsonCursor& json, bool& byte_level) {
  if (const auto dropout = json.find("dropout"); dropout && !(dropout->value().is_number() && dropout->value() == 0.0))
    throw dropout->error("dropout is not supported; expected null");
  BpeOptions options;
  options.where = json.where();
  options.vocabulary = read_vocabulary(json.at("vocab"));
  options.merges = read_merges(json.at("merges"));
  options.unknown = json.optional_text("unk_token");
  options.continuing_prefix = json.text_or("continuing_subword_prefix", "");
  options.end_suffix = json.text_or("end_of_word_suffix", "");
  options.fuse_unknown = json.flag_or("fuse_unk", false);
  options.byte_fallback = json.flag_or("byte_fallback", false);
  options.ignore_merges = json.flag_or("ignore_merges", false);
  byte_level = byte_level && options.continuing_prefix.empty() && options.end_suffix.empty() &&
               has_all_bytes(options.vocabulary);
  options.form = byte_level ? WordForm::bytes : WordForm::characters;
  return bpe_model(std::move(options));
}

std::unique_ptr<Model> read_word_piece(const JsonCursor& json) {
  WordPieceOptions options;
  options.where = json.where();
  options.vocabulary = read_vocabulary(json.at("vocab"));
  options.unknown = json.text_or("unk_token", "[UNK]");
  options.continuing_prefix = json.text_or("continuing_subword_prefix", "##");
  if (const auto most = json.find("max_input_chars_per_word")) options.max_chars = most->count();
  return word_piece_model(std::move(options));
}

/// Infers the type from the keys that are present if the file has no type, as old files have none.
std::string model_type(const JsonCursor& json) {
  if (json.has("type")) return json.type();
  if (json.has("merges")) return "BPE";
  if (json.has("continuing_subword_prefix")) return "WordPiece";
  if (json.has("vocab") && json.at("vocab").value().is_array()) return "Unigram";
  return "WordLevel";
}

}  // namespace

std::unique_ptr<Model> read_model(const JsonCursor& json, bool& byte_level) {
  const std::string type = model_type(json);
  if (type == "BPE") return read_bpe(json, byte_level);
  byte_level = false;
  if (type == "WordPiece") return read_word_piece(json);
  if (type == "WordLevel")
    return std::make_unique<WordLevel>(read_vocabulary(json.at("vocab")), json.text_or("unk_token", "<unk>"),
                                       json.where());
  if (type == "Unigram")
    throw json.error("a Unigram model is not supported here")
        .hint("use the SentencePiece .model that it was made from");
  throw json.error("unknown model '" + type + "'");
}

}  // namespace trainctl::tokenizer

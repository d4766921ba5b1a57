#include "tokenizer/normalizer/normalizer.h"

#include "tokenizer/pattern/pattern.h"
#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

class SequenceNormalizer final : public Normalizer {
 public:
  SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> steps, std::string where)
      : steps_(std::move(steps)), where_(std::move(where)) {}
  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const override {
    NormalizedString previous;
    Rewriter(target, alignment).copy(source, 0, source.text.size());
    for (const auto& step : steps_) {
      std::swap(previous, target);
      step->apply(TextStore::piece(previous, source), target, alignment);
      refuse_growth(source.text.size(), target.text.size(), where_);
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
  std::string where_;
};

/// Normalizer that rewrites each character independently.
class EachCharacter : public Normalizer {
 public:
  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const final {
    Rewriter out(target, alignment);
    for (std::size_t at = 0; at < source.text.size();) {
      const core::Decoded decoded = core::decode_at(source.text, at);
      rewrite(decoded.code, source.text.substr(at, decoded.length), source.span_at(at), out);
      at += decoded.length;
    }
  }

 protected:
  virtual void rewrite(char32_t code, std::string_view text, Span span, Rewriter& out) const = 0;
};

class Lowercase final : public EachCharacter {
  void rewrite(char32_t code, std::string_view, Span span, Rewriter& out) const override {
    char32_t room[2];
    for (const char32_t lower : lower_case(code, room)) out.put(lower, span);
  }
};

class StripAccents final : public EachCharacter {
 public:
  explicit StripAccents(SharedCharacters characters) : characters_(std::move(characters)) {}

 private:
  void rewrite(char32_t code, std::string_view text, Span span, Rewriter& out) const override {
    if (!characters_->is(code, Kind::mark)) out.put(text, span);
  }
  SharedCharacters characters_;
};

class ByteLevelNormalizer final : public EachCharacter {
  void rewrite(char32_t, std::string_view text, Span span, Rewriter& out) const override {
    for (const char byte : text) out.put(byte_chars()[static_cast<unsigned char>(byte)], span);
  }
};

/// SentencePiece's cleanup of control characters and unusual spaces.
class Nmt final : public EachCharacter {
  void rewrite(char32_t code, std::string_view text, Span span, Rewriter& out) const override {
    if ((code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F || code == 0x8F ||
        code == 0x9F)
      return;
    const bool is_space = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                          (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                          code == 0xFEFF || code == 0xFFFD;
    out.put(is_space ? " " : text, span);
  }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const override {
    Rewriter out(target, alignment);
    if (!source.text.empty()) out.put(text_, source.span_at(0));
    out.copy(source, 0, source.text.size());
  }

 private:
  std::string text_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<Pattern> pattern, std::string content, std::string where)
      : pattern_(std::move(pattern)), content_(std::move(content)), where_(std::move(where)) {}
  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const override {
    std::vector<Match> matches;
    pattern_->find(source.text, matches);
    refuse_growth(source.text.size(), matches.size() * content_.size(), where_);
    Rewriter out(target, alignment);
    std::size_t end = 0;
    for (const Match& match : matches) {
      out.copy(source, end, match.begin);
      end = match.end;
      // The content takes the span of the last character that it replaces, or of the character before an empty match.
      out.put(content_, end == 0 ? Span{} : source.span_at(end - core::decode_before(source.text, end).length));
    }
    out.copy(source, end, source.text.size());
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
  std::string where_;
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(SharedCharacters characters, bool left, bool right)
      : characters_(std::move(characters)), left_(left), right_(right) {}
  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const override {
    const std::string_view text = source.text;
    std::size_t begin = 0, end = text.size();
    while (left_ && begin < end && is_space(core::decode_at(text, begin).code)) begin += core::char_length(text[begin]);
    while (right_ && end > begin && is_space(core::decode_before(text, end).code))
      end -= core::decode_before(text, end).length;
    Rewriter(target, alignment).copy(source, begin, end);
  }

 private:
  bool is_space(char32_t code) const { return characters_->is(code, Kind::space); }
  SharedCharacters characters_;
  bool left_, right_;
};

std::unique_ptr<Normalizer> read_bert(const JsonCursor& json, const SharedCharacters& characters) {
  BertNormalizerOptions options;
  options.clean_text = json.flag_or("clean_text", true);
  options.handle_chinese_chars = json.flag_or("handle_chinese_chars", true);
  options.lowercase = json.flag_or("lowercase", true);
  options.strip_accents = json.flag_or("strip_accents", options.lowercase);
  return bert_normalizer(options, characters);
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonCursor& json, const SharedCharacters& characters) {
  if (json.value().is_null()) return nullptr;
  const std::string type = json.type();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> steps;
    for (const JsonCursor& part : json.at("normalizers").list())
      if (auto step = read_normalizer(part, characters)) steps.push_back(std::move(step));
    return std::make_unique<SequenceNormalizer>(std::move(steps), json.where());
  }
  if (type == "BertNormalizer") return read_bert(json, characters);
  if (type == "NFC") return unicode_normalizer(NormalForm::nfc);
  if (type == "NFD") return unicode_normalizer(NormalForm::nfd);
  if (type == "NFKC") return unicode_normalizer(NormalForm::nfkc);
  if (type == "NFKD") return unicode_normalizer(NormalForm::nfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>(characters);
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(characters, json.flag_or("strip_left", true),
                                             json.flag_or("strip_right", true));
  if (type == "Prepend") return std::make_unique<Prepend>(json.text("prepend"));
  if (type == "Replace")
    return std::make_unique<ReplaceNormalizer>(read_pattern(json.at("pattern"), characters), json.text("content"),
                                               json.where());
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  throw json.error("unknown normalizer '" + type + "'");
}

std::string normalized(const Normalizer* normalizer, std::string_view text) {
  if (normalizer == nullptr) return std::string(text);
  NormalizedString result;
  normalizer->apply({text}, result, Alignment::drop);
  return result.text;
}

}  // namespace trainctl::tokenizer

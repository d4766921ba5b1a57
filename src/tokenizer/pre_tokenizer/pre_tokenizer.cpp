#include "tokenizer/pre_tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tokenizer/unicode/byte_chars.h"

namespace trainctl::tokenizer {
namespace {

/// Whether the pattern says where the words are or, inverted, what is between them.
enum class Matched { delimiters, words };

struct Section {
  std::size_t begin, end;
  bool is_delimiter;
};

/// Lists the matches and the text between them.
std::vector<Section> sections(std::size_t size, const std::vector<Match>& matches, Matched matched) {
  std::vector<Section> all;
  all.reserve(2 * matches.size() + 1);
  const bool delimiter = matched == Matched::delimiters;
  std::size_t end = 0;
  for (const Match& match : matches) {
    if (match.begin != end) all.push_back({end, match.begin, !delimiter});
    all.push_back({match.begin, match.end, delimiter});
    end = match.end;
  }
  if (end != size) all.push_back({end, size, !delimiter});
  return all;
}

std::vector<Section> merge_equal(const std::vector<Section>& all) {
  std::vector<Section> merged;
  bool previous = false;
  for (const Section& section : all) {
    if (section.is_delimiter == previous && !merged.empty())
      merged.back().end = section.end;
    else
      merged.push_back(section);
    previous = section.is_delimiter;
  }
  return merged;
}

std::vector<Section> merge_with_previous(const std::vector<Section>& all) {
  std::vector<Section> merged;
  bool previous = false;
  for (const Section& section : all) {
    if (section.is_delimiter && !previous && !merged.empty())
      merged.back().end = section.end;
    else
      merged.push_back(section);
    previous = section.is_delimiter;
  }
  return merged;
}

std::vector<Section> merge_with_next(std::vector<Section> all) {
  std::vector<Section> merged;
  bool previous = false;
  std::reverse(all.begin(), all.end());
  for (const Section& section : all) {
    if (section.is_delimiter && !previous && !merged.empty())
      merged.back().begin = section.begin;
    else
      merged.push_back(section);
    previous = section.is_delimiter;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

void append_sections(const Piece& piece, const std::vector<Section>& all, std::vector<Piece>& parts) {
  for (const Section& section : all) parts.push_back(piece.part(section.begin, section.end));
}

/// Appends the parts of `piece` that its matches leave.
void split_at(const Piece& piece, const std::vector<Match>& matches, SplitBehavior behavior, Matched matched,
              std::vector<Piece>& parts) {
  const std::size_t size = piece.text.size();
  switch (behavior) {
    case SplitBehavior::isolated: {
      std::size_t end = 0;
      for (const Match& match : matches) {
        if (match.begin != end) parts.push_back(piece.part(end, match.begin));
        parts.push_back(piece.part(match.begin, match.end));
        end = match.end;
      }
      if (end != size) parts.push_back(piece.part(end, size));
      return;
    }
    case SplitBehavior::removed:
      for (const Section& section : sections(size, matches, matched))
        if (!section.is_delimiter) parts.push_back(piece.part(section.begin, section.end));
      return;
    case SplitBehavior::contiguous:
      return append_sections(piece, merge_equal(sections(size, matches, matched)), parts);
    case SplitBehavior::merged_with_previous:
      return append_sections(piece, merge_with_previous(sections(size, matches, matched)), parts);
    case SplitBehavior::merged_with_next:
      return append_sections(piece, merge_with_next(sections(size, matches, matched)), parts);
  }
}

SplitBehavior read_behavior(const JsonCursor& json) {
  const std::string name = json.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  throw json.error("unknown behavior '" + name + "'");
}

class SplitByPattern final : public PreTokenizer {
 public:
  SplitByPattern(std::unique_ptr<Pattern> pattern, SplitBehavior behavior, Matched matched)
      : pattern_(std::move(pattern)), behavior_(behavior), matched_(matched) {}
  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom& room) const override {
    room.matches.clear();
    pattern_->find(piece.text, room.matches);
    split_at(piece, room.matches, behavior_, matched_, parts);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  SplitBehavior behavior_;
  Matched matched_;
};

/// Splits at each character of the given kinds.
class SplitByKind final : public PreTokenizer {
 public:
  SplitByKind(SharedCharacters characters, Kind kind, SplitBehavior behavior)
      : characters_(std::move(characters)), kind_(kind), behavior_(behavior) {}
  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom& room) const override {
    room.matches.clear();
    for (std::size_t at = 0; at < piece.text.size();) {
      const core::Decoded decoded = core::decode_at(piece.text, at);
      if (characters_->is(decoded.code, kind_)) room.matches.push_back({at, at + decoded.length});
      at += decoded.length;
    }
    split_at(piece, room.matches, behavior_, Matched::delimiters, parts);
  }

 private:
  SharedCharacters characters_;
  Kind kind_;
  SplitBehavior behavior_;
};

/// Removes white space and isolates punctuation.
class BertPreTokenizer final : public PreTokenizer {
 public:
  explicit BertPreTokenizer(SharedCharacters characters) : characters_(std::move(characters)) {
    for (char32_t code = 0; code < 0x80; ++code) ascii_[code] = kind(code);
  }
  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom&) const override {
    const std::string_view text = piece.text;
    std::size_t word = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte < 0x80 && ascii_[byte] == kWord) {
        ++at;
        continue;
      }
      const core::Decoded decoded = core::decode_at(text, at);
      const What what = byte < 0x80 ? ascii_[byte] : kind(decoded.code);
      if (what != kWord) {
        if (word < at) parts.push_back(piece.part(word, at));
        word = at + decoded.length;
        if (what == kMark) parts.push_back(piece.part(at, word));
      }
      at += decoded.length;
    }
    if (word < text.size()) parts.push_back(piece.part(word, text.size()));
  }

 private:
  enum What : std::uint8_t { kWord, kGap, kMark };
  What kind(char32_t code) const {
    if (!characters_->any(code, bits(Kind::space) | bits(Kind::punctuation))) return kWord;
    return characters_->is(code, Kind::space) ? kGap : kMark;
  }
  SharedCharacters characters_;
  std::array<What, 0x80> ascii_{};
};

/// Splits by `\w+|[^\w\s]+`.
class WhitespacePreTokenizer final : public PreTokenizer {
 public:
  explicit WhitespacePreTokenizer(SharedCharacters characters) : characters_(std::move(characters)) {}
  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom&) const override {
    const std::string_view text = piece.text;
    constexpr unsigned kKinds = bits(Kind::word) | bits(Kind::space);
    unsigned previous = bits(Kind::space);
    std::size_t begin = 0;
    for (std::size_t at = 0; at <= text.size();) {
      const core::Decoded decoded = at < text.size() ? core::decode_at(text, at) : core::Decoded{U' ', 1};
      const unsigned kind = characters_->is(decoded.code, Kind::word)    ? bits(Kind::word)
                            : characters_->is(decoded.code, Kind::space) ? bits(Kind::space)
                                                                         : 0U;
      if (kind != previous || at == text.size()) {
        if ((previous & kKinds) != bits(Kind::space) && begin < at) parts.push_back(piece.part(begin, at));
        begin = at;
        previous = kind;
      }
      at += decoded.length;
    }
  }

 private:
  SharedCharacters characters_;
};

class AddPrefixSpace final : public PreTokenizer {
 public:
  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom& room) const override {
    if (piece.text.starts_with(' ') || piece.text.empty()) return parts.push_back(piece);
    NormalizedString& text = room.texts.make();
    Rewriter out(text, room.alignment);
    out.put(" ", piece.span_at(0));
    out.copy(piece, 0, piece.text.size());
    parts.push_back(TextStore::piece(text, piece));
  }
};

class ByteChars final : public PreTokenizer {
 public:
  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom& room) const override {
    NormalizedString& text = room.texts.make();
    Rewriter out(text, room.alignment);
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t end = at + core::char_length(piece.text[at]);
      const Span span = piece.span_at(at);
      for (; at < end; ++at) out.put(byte_chars()[static_cast<unsigned char>(piece.text[at])], span);
    }
    parts.push_back(TextStore::piece(text, piece));
  }
};

enum class PrependScheme { always, first, never };

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(char32_t replacement, PrependScheme prepend, bool splits) : prepend_(prepend), splits_(splits) {
    core::append_utf8(replacement_, replacement);
  }
  bool needs_spans() const override { return prepend_ == PrependScheme::first; }

  void split(const Piece& piece, std::vector<Piece>& parts, SplitRoom& room) const override {
    NormalizedString& text = room.texts.make();
    Rewriter out(text, room.alignment);
    const bool starts = piece.text.starts_with(' ') || piece.text.starts_with(replacement_);
    const bool prepends =
        prepend_ == PrependScheme::always || (prepend_ == PrependScheme::first && piece.span_at(0).begin == 0);
    if (!starts && prepends) out.put(replacement_, piece.span_at(0));
    for (std::size_t at = 0; at < piece.text.size();) {
      std::size_t end = piece.text.find(' ', at);
      if (end == std::string_view::npos) end = piece.text.size();
      out.copy(piece, at, end);
      if (end < piece.text.size()) out.put(replacement_, piece.span_at(end++));
      at = end;
    }
    const Piece whole = TextStore::piece(text, piece);
    if (!splits_) return parts.push_back(whole);
    std::size_t begin = 0;
    for (std::size_t at = next(whole.text, 0); at < whole.text.size();
         at = next(whole.text, at + replacement_.size())) {
      if (begin < at) parts.push_back(whole.part(begin, at));
      begin = at;
    }
    if (begin < whole.text.size()) parts.push_back(whole.part(begin, whole.text.size()));
  }

 private:
  std::size_t next(std::string_view text, std::size_t at) const {
    return std::min(text.find(replacement_, at), text.size());
  }

  std::string replacement_;
  PrependScheme prepend_;
  bool splits_;
};

class Reader {
 public:
  explicit Reader(SharedCharacters characters) : characters_(std::move(characters)) {}

  void read(const JsonCursor& json) {
    const std::string type = json.type();
    // The model may get bytes instead of byte characters only if this step is the last.
    if (result_.byte_level) add(byte_chars_pre_tokenizer());
    result_.byte_level = false;
    if (type == "Sequence") {
      for (const JsonCursor& part : json.at("pretokenizers").list()) read(part);
    } else if (type == "ByteLevel") {
      read_byte_level(json);
    } else if (type == "Split") {
      add(std::make_unique<SplitByPattern>(read_pattern(json.at("pattern"), characters_),
                                           read_behavior(json.at("behavior")),
                                           json.flag_or("invert", false) ? Matched::words : Matched::delimiters));
    } else if (type == "BertPreTokenizer") {
      add(bert_pre_tokenizer(characters_));
    } else if (type == "Whitespace") {
      add(std::make_unique<WhitespacePreTokenizer>(characters_));
    } else if (type == "WhitespaceSplit") {
      add(std::make_unique<SplitByKind>(characters_, Kind::space, SplitBehavior::removed));
    } else if (type == "Punctuation") {
      const SplitBehavior behavior =
          json.has("behavior") ? read_behavior(json.at("behavior")) : SplitBehavior::isolated;
      add(std::make_unique<SplitByKind>(characters_, Kind::punctuation, behavior));
    } else if (type == "Digits") {
      add(std::make_unique<SplitByKind>(
          characters_, Kind::digit,
          json.flag_or("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous));
    } else if (type == "CharDelimiterSplit") {
      std::string delimiter;
      core::append_utf8(delimiter, json.at("delimiter").character());
      add(std::make_unique<SplitByPattern>(text_pattern(delimiter), SplitBehavior::removed, Matched::delimiters));
    } else if (type == "Metaspace") {
      read_metaspace(json);
    } else {
      throw json.error("unknown pre-tokenizer '" + type + "'");
    }
  }

  PreTokenization take() { return std::move(result_); }

 private:
  void add(std::unique_ptr<PreTokenizer> step) { result_.steps.push_back(std::move(step)); }

  void read_byte_level(const JsonCursor& json) {
    if (json.flag_or("add_prefix_space", true)) add(std::make_unique<AddPrefixSpace>());
    if (json.flag_or("use_regex", true)) add(pattern_pre_tokenizer(gpt2_pattern(characters_)));
    result_.byte_level = true;
  }

  void read_metaspace(const JsonCursor& json) {
    const std::string scheme = json.text_or("prepend_scheme", "always");
    PrependScheme prepend = PrependScheme::always;
    if (scheme == "first")
      prepend = PrependScheme::first;
    else if (scheme == "never")
      prepend = PrependScheme::never;
    else if (scheme != "always")
      throw json.error("unknown prepend_scheme '" + scheme + "'");
    if (!json.flag_or("add_prefix_space", true)) prepend = PrependScheme::never;
    add(std::make_unique<MetaspacePreTokenizer>(json.at("replacement").character(), prepend,
                                                json.flag_or("split", true)));
  }

  SharedCharacters characters_;
  PreTokenization result_;
};

}  // namespace

PreTokenization read_pre_tokenizers(const JsonCursor& json, const SharedCharacters& characters) {
  if (json.value().is_null()) return {};
  Reader reader(characters);
  reader.read(json);
  return reader.take();
}

std::unique_ptr<PreTokenizer> bert_pre_tokenizer(const SharedCharacters& characters) {
  return std::make_unique<BertPreTokenizer>(characters);
}

std::unique_ptr<PreTokenizer> pattern_pre_tokenizer(std::unique_ptr<Pattern> pattern) {
  return std::make_unique<SplitByPattern>(std::move(pattern), SplitBehavior::isolated, Matched::delimiters);
}

std::unique_ptr<PreTokenizer> byte_chars_pre_tokenizer() {
  return std::make_unique<ByteChars>();
}

}  // namespace trainctl::tokenizer

// BertNormalizer drops controls, isolates CJK characters, strips accents and lowercases. Each step looks at one
// character, so one table does all of them. Only the order of combining marks depends on neighbors; apply_slowly()
// handles the few that remain.
#include <unicode/normalizer2.h>

#include <array>
#include <unordered_map>

#include "core/error.h"
#include "tokenizer/normalizer/normalizer.h"

namespace trainctl::tokenizer {
namespace {

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

class BertNormalizer final : public Normalizer {
 public:
  BertNormalizer(const BertNormalizerOptions& options, SharedCharacters characters)
      : options_(options),
        characters_(std::move(characters)),
        decompose_(options.strip_accents ? unicode_normalizer(NormalForm::nfd) : nullptr) {
    for (char32_t code = 0; code < 0x80; ++code) ascii_[code] = ascii(code);
    make_table();
  }

  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const override {
    Rewriter out(target, alignment);
    const std::string_view text = source.text;
    for (std::size_t at = 0; at < text.size();) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        const std::int16_t code = ascii_[static_cast<unsigned char>(text[at])];
        const char c = static_cast<char>(code);
        if (code != kDropped) out.put(std::string_view(&c, 1), source.span_at(at));
        ++at;
        continue;
      }
      const core::Decoded decoded = core::decode_at(text, at);
      const std::uint32_t row = rows_[pages_[decoded.code >> 8] | (decoded.code & 0xFF)];
      if (row == kReordering) return apply_slowly(source, target, alignment);
      if (row == kSame)
        out.put(text.substr(at, decoded.length), source.span_at(at));
      else if (row != kGone)
        out.put(replacements_[row], source.span_at(at));
      at += decoded.length;
    }
  }

 private:
  static constexpr std::int16_t kDropped = -1;
  static constexpr std::uint32_t kSame = 0, kGone = 1, kReordering = 2;

  std::int16_t ascii(char32_t code) const {
    if (options_.clean_text) {
      if (characters_->is(code, Kind::control)) return kDropped;
      if (characters_->is(code, Kind::space)) return ' ';
    }
    const bool capital = code >= 'A' && code <= 'Z';
    return static_cast<std::int16_t>(options_.lowercase && capital ? code + 32 : code);
  }

  /// Applies clean_text and handle_chinese_chars to one character; accents remain.
  std::string cleaned(char32_t code) const {
    if (options_.clean_text) {
      if (characters_->is(code, Kind::control)) return {};
      if (characters_->is(code, Kind::space)) code = U' ';
    }
    std::string text;
    core::append_utf8(text, code);
    return options_.handle_chinese_chars && is_chinese(code) ? " " + text + " " : text;
  }

  std::string finished(std::string_view text) const {
    std::string result;
    for (const char32_t code : core::to_utf32(text)) {
      if (options_.strip_accents && characters_->is(code, Kind::accent)) continue;
      char32_t room[2];
      if (options_.lowercase)
        result += core::to_utf8(lower_case(code, room));
      else
        core::append_utf8(result, code);
    }
    return result;
  }

  /// Whether the character leaves a combining mark that canonical ordering may move among its neighbors.
  bool reorders(std::string_view decomposed, const icu::Normalizer2& nfd) const {
    if (!options_.strip_accents) return false;
    for (const char32_t code : core::to_utf32(decomposed))
      if (!characters_->is(code, Kind::accent) && nfd.getCombiningClass(static_cast<UChar32>(code)) != 0) return true;
    return false;
  }

  void make_table() {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* const nfd = icu::Normalizer2::getNFDInstance(status);
    if (U_FAILURE(status)) throw core::Error("ICU has no normalization data");
    replacements_.assign(3, {});
    std::unordered_map<std::string, std::uint32_t> known;
    std::array<std::uint32_t, 256> page;
    std::unordered_map<std::uint32_t, std::uint32_t> uniform;  // pages whose rows are all equal; most pages are
    for (char32_t first = 0; first < 0x110000; first += 256) {
      if (is_unassigned_page(first) && uniform.contains(kSame)) {
        pages_[first >> 8] = uniform.at(kSame);
        continue;
      }
      bool same = true;
      for (char32_t code = first; code < first + 256; ++code) {
        page[code - first] = row_of(code, *nfd, known);
        same = same && page[code - first] == page[0];
      }
      if (same && uniform.contains(page[0])) {
        pages_[first >> 8] = uniform.at(page[0]);
        continue;
      }
      pages_[first >> 8] = static_cast<std::uint32_t>(rows_.size());
      if (same) uniform[page[0]] = pages_[first >> 8];
      rows_.insert(rows_.end(), page.begin(), page.end());
    }
  }

  /// Whether the page is in a plane that Unicode has not assigned; its characters stay unchanged.
  static bool is_unassigned_page(char32_t first) {
    return (first >= 0x40000 && first < 0xE0000) || (first >= 0xE1000 && first < 0xF0000);
  }

  /// Quick check for the many characters that stay unchanged.
  bool stays(char32_t code, const icu::Normalizer2& nfd) const {
    if (options_.clean_text && characters_->is(code, Kind::space)) return false;
    if (options_.handle_chinese_chars && is_chinese(code)) return false;
    const auto point = static_cast<UChar32>(code);
    if (options_.strip_accents && (characters_->is(code, Kind::accent) || !nfd.isInert(point))) return false;
    char32_t room[2];
    const std::u32string_view lower = lower_case(code, room);
    return !options_.lowercase || (lower.size() == 1 && lower[0] == code);
  }

  std::uint32_t row_of(char32_t code, const icu::Normalizer2& nfd,
                       std::unordered_map<std::string, std::uint32_t>& known) {
    if (code >= 0xD800 && code < 0xE000) return kSame;
    if (options_.clean_text && characters_->is(code, Kind::control)) return kGone;
    if (stays(code, nfd)) return kSame;
    std::string text = cleaned(code);
    if (text.empty()) return kGone;
    if (options_.strip_accents) text = normalized(decompose_.get(), text);
    if (reorders(text, nfd)) return kReordering;
    text = finished(text);
    if (text.empty()) return kGone;
    std::string itself;
    core::append_utf8(itself, code);
    if (text == itself) return kSame;
    const auto [found, is_new] = known.emplace(text, static_cast<std::uint32_t>(replacements_.size()));
    if (is_new) replacements_.push_back(text);
    return found->second;
  }

  /// Applies the steps one after the other, with Unicode's full canonical ordering.
  void apply_slowly(const Piece& source, NormalizedString& target, Alignment alignment) const {
    NormalizedString clean, decomposed;
    Rewriter first(clean, alignment);
    for (std::size_t at = 0; at < source.text.size();) {
      const core::Decoded decoded = core::decode_at(source.text, at);
      first.put(cleaned(decoded.code), source.span_at(at));
      at += decoded.length;
    }
    decompose_->apply(TextStore::piece(clean, source), decomposed, alignment);
    const Piece middle = TextStore::piece(decomposed, source);
    Rewriter out(target, alignment);
    for (std::size_t at = 0; at < middle.text.size();) {
      const std::size_t length = core::char_length(middle.text[at]);
      out.put(finished(middle.text.substr(at, length)), middle.span_at(at));
      at += length;
    }
  }

  BertNormalizerOptions options_;
  SharedCharacters characters_;
  std::unique_ptr<Normalizer> decompose_;
  std::array<std::int16_t, 0x80> ascii_{};
  std::array<std::uint32_t, 0x1100> pages_{};  // first row of each page of 256 characters
  std::vector<std::uint32_t> rows_;            // kSame, kGone, kReordering or the index of a replacement
  std::vector<std::string> replacements_;
};

}  // namespace

std::unique_ptr<Normalizer> bert_normalizer(const BertNormalizerOptions& options, const SharedCharacters& characters) {
  return std::make_unique<BertNormalizer>(options, characters);
}

}  // namespace trainctl::tokenizer

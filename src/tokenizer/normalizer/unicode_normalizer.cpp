// Unicode normal forms that record where each character came from. They follow the Rust crate
// unicode-normalization-alignments: each output character records how many source characters it replaces.
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "core/error.h"
#include "tokenizer/normalizer/normalizer.h"

namespace trainctl::tokenizer {
namespace {

/// Character with its alignment: change 0 takes the next source character, 1 takes none, -n takes n more.
struct Changed {
  char32_t code;
  int change;
  std::uint8_t ccc = 0;
};

/// Whether the reference's tables, which end with Unicode 12.0, have the character. Later characters stay unchanged.
bool is_known(char32_t code) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(code), age);
  return age[0] < 12 || (age[0] == 12 && age[1] == 0);
}

const icu::Normalizer2& icu_form(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const char* const data = form == NormalForm::nfc || form == NormalForm::nfd ? "nfc" : "nfkc";
  const UNormalization2Mode mode =
      form == NormalForm::nfc || form == NormalForm::nfkc ? UNORM2_COMPOSE : UNORM2_DECOMPOSE;
  const icu::Normalizer2* table = icu::Normalizer2::getInstance(nullptr, data, mode, status);
  if (U_FAILURE(status)) throw core::Error(std::string("ICU has no normalization data: ") + u_errorName(status));
  return *table;
}

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form)
      : form_(icu_form(form)),
        canonical_(icu_form(NormalForm::nfc)),
        composes_(form == NormalForm::nfc || form == NormalForm::nfkc) {}

  void apply(const Piece& source, NormalizedString& target, Alignment alignment) const override {
    Rewriter out(target, alignment);
    // ASCII that precedes ASCII is normal in every form.
    for (std::size_t at = 0; at < source.text.size();) {
      const std::size_t plain = plain_end(source.text, at);
      out.copy(source, at, plain);
      const std::size_t end = next_plain(source.text, plain);
      if (is_normal(source.text.substr(plain, end - plain)))
        out.copy(source, plain, end);
      else
        rewrite(source, plain, end, out);
      at = end;
    }
  }

 private:
  static bool is_plain(char c) { return static_cast<unsigned char>(c) < 0x80; }

  /// Returns the end of the ASCII run at `at`. If more text follows, its last character is excluded, since it may
  /// combine.
  static std::size_t plain_end(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && is_plain(text[end])) ++end;
    return end == text.size() || end == at ? end : end - 1;
  }
  /// Returns the next ASCII character that does not begin a combination.
  static std::size_t next_plain(std::string_view text, std::size_t at) {
    if (at < text.size() && is_plain(text[at])) ++at;
    while (at < text.size() && !is_plain(text[at])) ++at;
    return at;
  }

  /// Asks ICU's tables, which are newer. Text that is normal under them is normal under the older tables too.
  bool is_normal(std::string_view text) const {
    UErrorCode status = U_ZERO_ERROR;
    const icu::StringPiece piece(text.data(), static_cast<std::int32_t>(text.size()));
    return text.size() < (1U << 30) && form_.isNormalizedUTF8(piece, status) && U_SUCCESS(status);
  }

  std::uint8_t ccc(char32_t code) const {
    return code < 0x300 || !is_known(code) ? 0 : canonical_.getCombiningClass(static_cast<UChar32>(code));
  }

  void decompose(char32_t code, std::vector<Changed>& codes) const {
    icu::UnicodeString parts;
    if (code < 0x80 || !is_known(code) || !form_.getDecomposition(static_cast<UChar32>(code), parts)) {
      codes.push_back({code, 0, ccc(code)});
      return;
    }
    for (std::int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
      const auto part = static_cast<char32_t>(parts.char32At(i));
      codes.push_back({part, i == 0 ? 0 : 1, ccc(part)});
    }
  }

  static void sort_marks(std::vector<Changed>& codes) {
    for (auto begin = codes.begin(); begin != codes.end();) {
      if (begin->ccc == 0) {
        ++begin;
        continue;
      }
      const auto end = std::find_if(begin, codes.end(), [](const Changed& code) { return code.ccc == 0; });
      std::stable_sort(begin, end, [](const Changed& a, const Changed& b) { return a.ccc < b.ccc; });
      begin = end;
    }
  }

  char32_t composed(char32_t first, char32_t second) const {
    const UChar32 both = canonical_.composePair(static_cast<UChar32>(first), static_cast<UChar32>(second));
    return both < 0 || !is_known(static_cast<char32_t>(both)) ? 0 : static_cast<char32_t>(both);
  }

  /// Composes by UAX #15 and adds up the changes as the reference does.
  std::vector<Changed> compose(const std::vector<Changed>& codes) const {
    std::vector<Changed> result;
    std::optional<Changed> starter;
    std::vector<Changed> marks;  // marks after the starter
    const auto flush = [&] {
      if (starter) result.push_back(*starter);
      result.insert(result.end(), marks.begin(), marks.end());
      starter.reset();
      marks.clear();
    };
    for (const Changed& code : codes) {
      if (!starter) {
        if (code.ccc == 0)
          starter = code;
        else
          result.push_back(code);
        continue;
      }
      const bool blocked = !marks.empty() && marks.back().ccc >= code.ccc;
      const char32_t both = blocked ? 0 : composed(starter->code, code.code);
      if (both != 0) {
        starter->code = both;
        starter->change += code.change - 1;
      } else if (code.ccc == 0) {
        flush();
        starter = code;
      } else {
        marks.push_back(code);
      }
    }
    flush();
    return result;
  }

  void rewrite(const Piece& source, std::size_t begin, std::size_t end, Rewriter& out) const {
    std::vector<Changed> codes;
    std::vector<Span> spans;  // spans of the source's characters
    for (std::size_t at = begin; at < end;) {
      const core::Decoded decoded = core::decode_at(source.text, at);
      decompose(decoded.code, codes);
      spans.push_back(source.span_at(at));
      at += decoded.length;
    }
    sort_marks(codes);
    if (composes_) codes = compose(codes);
    std::size_t next = 0;  // next source character
    for (const Changed& code : codes) {
      const std::size_t index = code.change > 0 ? (next == 0 ? 0 : next - 1) : next;
      out.put(code.code, spans[std::min(index, spans.size() - 1)]);
      if (code.change <= 0) next += 1 + static_cast<std::size_t>(-code.change);
    }
  }

  const icu::Normalizer2& form_;
  const icu::Normalizer2& canonical_;
  bool composes_;
};

}  // namespace

std::unique_ptr<Normalizer> unicode_normalizer(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

}  // namespace trainctl::tokenizer

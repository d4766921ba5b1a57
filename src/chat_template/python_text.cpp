#include "chat_template/python_text.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cctype>

namespace trainctl::chat_template {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

UChar32 as_icu(char32_t code) {
  return static_cast<UChar32>(code);
}

bool is_cased(char32_t code) {
  return u_hasBinaryProperty(as_icu(code), UCHAR_CASED) != 0;
}

/// Each letter's full case mapping, where its neighbours don't matter.
std::string cased(std::string_view text, bool to_upper) {
  icu::UnicodeString letters = icu::UnicodeString::fromUTF8({text.data(), static_cast<std::int32_t>(text.size())});
  const icu::Locale root("");
  if (to_upper)
    letters.toUpper(root);
  else
    letters.toLower(root);
  std::string out;
  return letters.toUTF8String(out);
}

std::string titled(char32_t code) {
  icu::UnicodeString letter(as_icu(code));
  letter.toTitle(nullptr, icu::Locale(""));
  std::string out;
  return letter.toUTF8String(out);
}

std::string one(char32_t code) {
  std::string text;
  append_code_point(text, code);
  return text;
}

std::string title_case(std::u32string_view codes) {
  std::string out;
  bool in_word = false;
  for (const char32_t code : codes) {
    out += in_word ? cased(one(code), false) : titled(code);
    in_word = is_cased(code);
  }
  return out;
}

std::string swapped_case(std::u32string_view codes) {
  std::string out;
  for (const char32_t code : codes) {
    if (u_isUUppercase(as_icu(code)) != 0)
      out += cased(one(code), false);
    else
      out += u_isULowercase(as_icu(code)) != 0 ? cased(one(code), true) : one(code);
  }
  return out;
}

bool is_printable(char32_t code) {
  if (code == ' ') return true;
  switch (u_charType(as_icu(code))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

std::string escaped(char32_t code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const int width = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  std::string text = width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (width - 1); shift >= 0; shift -= 4) text += kDigits[static_cast<unsigned>(code) >> shift & 15U];
  return text;
}

/// The length of the UTF-8 sequence that a byte begins; 0 if it begins none.
std::size_t sequence_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = sequence_length(first);
    if (length == 1) {
      codes += first;
      ++i;
      continue;
    }
    char32_t code = length == 0 ? kReplacement : first & (0xFFU >> (length + 1));
    bool is_whole = length > 0 && i + length <= text.size();
    for (std::size_t k = 1; is_whole && k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      is_whole = (next & 0xC0U) == 0x80;
      code = code << 6U | (next & 0x3FU);
    }
    codes += is_whole ? code : kReplacement;
    i += is_whole ? length : 1;
  }
  return codes;
}

void append_code_point(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | code >> 6U);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0U | code >> 12U);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | code >> 18U);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string utf8(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (const char32_t code : codes) append_code_point(text, code);
  return text;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80; }));
}

bool is_python_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20);
  if (code == 0x85 || code == 0xA0) return true;
  return u_charType(as_icu(code)) == U_SPACE_SEPARATOR || code == 0x2028 || code == 0x2029;
}

std::string strip(std::string_view text, StripSide side, std::optional<std::string_view> chars) {
  const std::u32string codes = code_points(text);
  const std::u32string set = chars ? code_points(*chars) : std::u32string();
  const auto goes = [&](char32_t code) {
    return chars ? set.find(code) != std::u32string::npos : is_python_space(code);
  };
  std::size_t begin = 0;
  std::size_t end = codes.size();
  if (side != StripSide::right)
    while (begin < end && goes(codes[begin])) ++begin;
  if (side != StripSide::left)
    while (end > begin && goes(codes[end - 1])) --end;
  return utf8(std::u32string_view(codes).substr(begin, end - begin));
}

std::string with_case(std::string_view text, LetterCase wanted) {
  switch (wanted) {
    case LetterCase::upper:
      return cased(text, true);
    case LetterCase::lower:
      return cased(text, false);
    case LetterCase::title:
      return title_case(code_points(text));
    case LetterCase::swapped:
      return swapped_case(code_points(text));
    case LetterCase::capitalized:
      break;
  }
  const std::u32string codes = code_points(text);
  return codes.empty() ? "" : titled(codes[0]) + cased(utf8(std::u32string_view(codes).substr(1)), false);
}

std::string represented_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char32_t code : code_points(text)) {
    if (code == '\\' || code == static_cast<unsigned char>(quote))
      out += {'\\', static_cast<char>(code)};
    else if (code == '\n')
      out += "\\n";
    else if (code == '\r')
      out += "\\r";
    else if (code == '\t')
      out += "\\t";
    else
      out += is_printable(code) ? one(code) : escaped(code);
  }
  return out + quote;
}

std::string replaced(std::string_view text, std::string_view old_part, std::string_view new_part, std::int64_t most) {
  std::string out;
  std::int64_t done = 0;
  std::size_t begin = 0;
  if (old_part.empty()) {  // between all characters
    for (const char32_t code : code_points(text)) {
      if (most < 0 || done++ < most) out += new_part;
      append_code_point(out, code);
    }
    return most < 0 || done < most ? out.append(new_part) : out;
  }
  while (most < 0 || done < most) {
    const std::size_t found = text.find(old_part, begin);
    if (found == std::string_view::npos) break;
    out.append(text.substr(begin, found - begin)).append(new_part);
    begin = found + old_part.size();
    ++done;
  }
  return out.append(text.substr(begin));
}

std::vector<std::size_t> slice_indices(const SliceBounds& bounds, std::size_t size) {
  const auto length = static_cast<std::int64_t>(size);
  const bool forward = bounds.step > 0;
  const auto place = [&](std::optional<std::int64_t> index, std::int64_t otherwise) {
    if (!index) return otherwise;
    const std::int64_t from_start = *index < 0 ? *index + length : *index;
    return std::clamp<std::int64_t>(from_start, forward ? 0 : -1, forward ? length : length - 1);
  };
  const std::int64_t begin = place(bounds.begin, forward ? 0 : length - 1);
  const std::int64_t end = place(bounds.end, forward ? length : -1);
  std::vector<std::size_t> indices;
  for (std::int64_t i = begin; forward ? i < end : i > end;) {
    indices.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, bounds.step, &i)) break;  // past either end
  }
  return indices;
}

std::optional<std::string> number_text(std::string_view text, std::int64_t base) {
  std::string ascii;
  for (const char32_t code : code_points(strip(text, StripSide::both))) {
    const std::int32_t digit = u_charDigitValue(as_icu(code));
    append_code_point(ascii, digit < 0 ? code : U'0' + static_cast<char32_t>(digit));
  }
  std::string number;
  for (std::size_t i = 0; i < ascii.size(); ++i) {
    if (ascii[i] != '_') {
      number += ascii[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) {
      return at < ascii.size() && (base == 10 ? std::isdigit(ascii[at] & 0xff) : std::isalnum(ascii[at] & 0xff)) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return number;
}

bool has_property(std::string_view text, TextProperty property) {
  const std::u32string codes = code_points(text);
  if (property == TextProperty::upper || property == TextProperty::lower) {
    const bool wants_upper = property == TextProperty::upper;
    bool any = false;
    for (const char32_t code : codes) {
      if (!is_cased(code)) continue;
      if ((wants_upper ? u_isUUppercase(as_icu(code)) : u_isULowercase(as_icu(code))) == 0) return false;
      any = true;
    }
    return any;
  }
  if (property == TextProperty::title) return !codes.empty() && title_case(codes) == text;
  const auto has = [&](char32_t code) -> bool {
    const auto numeric = static_cast<UNumericType>(u_getIntPropertyValue(as_icu(code), UCHAR_NUMERIC_TYPE));
    const bool is_digit = numeric == U_NT_DECIMAL || numeric == U_NT_DIGIT;
    if (property == TextProperty::space) return is_python_space(code);
    if (property == TextProperty::decimal) return numeric == U_NT_DECIMAL;
    if (property == TextProperty::digit) return is_digit;
    const bool is_alpha = u_isalpha(as_icu(code)) != 0;
    return property == TextProperty::alpha ? is_alpha : is_alpha || numeric != U_NT_NONE;
  };
  return !codes.empty() && std::all_of(codes.begin(), codes.end(), has);
}

}  // namespace trainctl::chat_template

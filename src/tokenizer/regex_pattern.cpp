// Regular expressions by ICU. Tokenizer files are written for Oniguruma (its default, Ruby-like dialect); what the two
// read differently is translated, or refused.
#include <unicode/uregex.h>
#include <unicode/utext.h>

#include "tokenizer/pattern.h"
#include "tokenizer/utf8.h"

namespace trainctl {
namespace {

constexpr std::int32_t kStepLimit = 500'000;    // ICU counts steps in thousands or so: seconds, not minutes
constexpr std::int32_t kStackBytes = 64 << 20;  // for backtracking

struct CloseRegex {
  void operator()(URegularExpression* regex) const { uregex_close(regex); }
};
using Regex = std::unique_ptr<URegularExpression, CloseRegex>;

class OpenText {
 public:
  explicit OpenText(std::string_view text) {
    UErrorCode status = U_ZERO_ERROR;
    utext_openUTF8(&text_, text.data(), static_cast<std::int64_t>(text.size()), &status);
    if (U_FAILURE(status)) throw Error(std::string("ICU cannot open a text: ") + u_errorName(status));
  }
  OpenText(const OpenText&) = delete;
  OpenText& operator=(const OpenText&) = delete;
  ~OpenText() { utext_close(&text_); }
  UText* get() { return &text_; }

 private:
  UText text_ = UTEXT_INITIALIZER;
};

/// Oniguruma's class of an escaped letter in ICU's words; "" where both mean the same.
std::string_view translated(char letter, bool in_class) {
  switch (letter) {
    case 's':
      return R"(\p{White_Space})";
    case 'S':
      return R"(\P{White_Space})";
    case 'w':
      return in_class ? R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})" : R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])";
    case 'W':
      return in_class ? R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])" : R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}])";
    case 'h':
      return in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
    default:
      return "";
  }
}

/// The expression as ICU reads it.
std::string translate(std::string_view expression, const std::string& where) {
  constexpr std::string_view kDifferent = "HKNOyYgGZbBXRMCk";
  std::string result;
  int depth = 0;  // of brackets
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char letter = expression[++i];
      if (kDifferent.find(letter) != std::string_view::npos)
        throw Error(where + ": \\" + letter + " in a regular expression is not supported");
      const std::string_view instead = translated(letter, depth > 0);
      if (instead.empty())
        result += {c, letter};
      else
        result += instead;
      continue;
    }
    const std::string_view group = expression.substr(i, 3);
    if (depth == 0 && (group == "(?~" || group == "(?m" || group == "(?x" || group == "(?<"))
      if (group != "(?<" || (expression.substr(i, 4) != "(?<=" && expression.substr(i, 4) != "(?<!"))
        throw Error(where + ": " + std::string(group) + " in a regular expression is not supported");
    if (c == '[') ++depth;
    if (c == ']' && depth > 0) --depth;
    result += c;
  }
  return result;
}

class RegexPattern final : public Pattern {
 public:
  RegexPattern(std::string_view expression, const std::string& where) : where_(where) {
    UErrorCode status = U_ZERO_ERROR;
    UParseError place{};
    const std::string text = translate(expression, where);
    OpenText opened(text);
    // Ruby's ^ and $ are at every line's ends, and only \n ends lines.
    regex_.reset(uregex_openUText(opened.get(), UREGEX_MULTILINE | UREGEX_UNIX_LINES, &place, &status));
    if (U_FAILURE(status))
      throw Error(where + ": cannot read the regular expression at character " + std::to_string(place.offset) + ": " +
                  u_errorName(status));
    uregex_setTimeLimit(regex_.get(), kStepLimit, &status);
    uregex_setStackLimit(regex_.get(), kStackBytes, &status);
  }

  void find(std::string_view text, std::vector<Match>& matches) const override {
    UErrorCode status = U_ZERO_ERROR;
    const Regex regex(uregex_clone(regex_.get(), &status));  // one thread each
    uregex_setTimeLimit(regex.get(), kStepLimit, &status);
    uregex_setStackLimit(regex.get(), kStackBytes, &status);
    OpenText opened(text);
    uregex_setUText(regex.get(), opened.get(), &status);
    while (U_SUCCESS(status) && uregex_findNext(regex.get(), &status)) {
      const std::int64_t begin = uregex_start64(regex.get(), 0, &status);
      const std::int64_t end = uregex_end64(regex.get(), 0, &status);
      if (U_SUCCESS(status)) matches.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(end)});
    }
    if (U_FAILURE(status)) throw Error(where_ + ": matching a text: " + u_errorName(status));
  }

 private:
  std::string where_;
  Regex regex_;
};

}  // namespace

std::unique_ptr<Pattern> regex_pattern(std::string_view expression, const std::string& where) {
  return std::make_unique<RegexPattern>(expression, where);
}

}  // namespace trainctl

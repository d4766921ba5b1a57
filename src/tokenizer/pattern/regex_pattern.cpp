// Runs regular expressions with ICU. Tokenizer files are written for Oniguruma's Ruby-like default syntax. Constructs
// that ICU reads differently are translated or refused.
#include <unicode/uregex.h>
#include <unicode/utext.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"
#include "tokenizer/pattern/pattern.h"
#include "tokenizer/unicode/unicode_ranges.h"

namespace trainctl::tokenizer {
namespace {

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
    if (U_FAILURE(status)) throw core::Error(std::string("ICU cannot open a text: ") + u_errorName(status));
  }
  OpenText(const OpenText&) = delete;
  OpenText& operator=(const OpenText&) = delete;
  ~OpenText() { utext_close(&text_); }
  UText* get() { return &text_; }

 private:
  UText text_ = UTEXT_INITIALIZER;
};

enum class Place { brackets, alone };
enum class Sense { in, not_in };

/// Writes ranges of characters in ICU's set syntax.
std::string set_between(std::string_view opening, std::span<const std::uint32_t> ranges, std::string_view closing) {
  std::ostringstream set;
  set << opening << std::hex;
  std::uint32_t code = 0;
  for (std::size_t i = 0; i + 1 < ranges.size(); i += 2) {
    code += ranges[i];
    set << "\\x{" << code << "}-\\x{" << code + ranges[i + 1] - 1 << '}';
    code += ranges[i + 1];
  }
  set << closing;
  return set.str();
}

std::string set_of(std::span<const std::uint32_t> ranges, Place place, Sense sense) {
  if (sense == Sense::not_in) return set_between("[^", ranges, "]");
  return place == Place::brackets ? set_between("", ranges, "") : set_between("[", ranges, "]");
}

/// Translates an escape with the reference's tables; "" if ICU's meaning is the same.
std::string translated(std::string_view escape, Place place) {
  namespace sets = unicode_ranges;
  const char letter = escape[1];
  const Sense sense = letter == 'W' || letter == 'D' || letter == 'P' ? Sense::not_in : Sense::in;
  if (letter == 's') return R"(\p{White_Space})";
  if (letter == 'S') return R"(\P{White_Space})";
  if (letter == 'w' || letter == 'W') return set_of(sets::kRegexWords, place, sense);
  if (letter == 'd' || letter == 'D') return set_of(sets::kDecimals, place, sense);
  if (letter == 'h') return place == Place::brackets ? "0-9a-fA-F" : "[0-9a-fA-F]";
  const std::string_view property = escape.substr(2);
  if (property == "{L}") return set_of(sets::kLetters, place, sense);
  if (property == "{N}") return set_of(sets::kNumbers, place, sense);
  if (property == "{Nd}") return set_of(sets::kDecimals, place, sense);
  return "";
}

/// Returns the backslash and the characters that belong to it.
std::string_view escape_at(std::string_view expression, std::size_t at) {
  const char letter = at + 1 < expression.size() ? expression[at + 1] : '\0';
  if ((letter != 'p' && letter != 'P') || at + 2 >= expression.size() || expression[at + 2] != '{')
    return expression.substr(at, 2);
  const std::size_t end = expression.find('}', at);
  return expression.substr(at, end == std::string_view::npos ? end : end + 1 - at);
}

void refuse_group(std::string_view rest, const std::string& where) {
  for (const std::string_view group : {"(?~", "(?m", "(?x", "(?<", "[[:", "[^[:"})
    if (rest.starts_with(group) && !rest.starts_with("(?<=") && !rest.starts_with("(?<!"))
      throw core::Error(where + ": '" + std::string(group) + "' in a regular expression is not supported");
}

/// Returns "{2,3}" where an interval begins the text; "" elsewhere.
std::string_view interval_at(std::string_view rest) {
  const std::size_t end = rest.find('}');
  if (end == std::string_view::npos || end < 2) return "";
  const std::string_view inside = rest.substr(1, end - 1);
  const bool is_interval = inside != "," && inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                           std::count(inside.begin(), inside.end(), ',') <= 1;
  return is_interval ? rest.substr(0, end + 1) : "";
}

/// Returns "(?i)" where options without a group begin the text; "" elsewhere.
std::string_view options_at(std::string_view rest) {
  const std::size_t end = rest.find(')');
  const bool are_options = rest.starts_with("(?") && end != std::string_view::npos &&
                           rest.substr(2, end - 2).find_first_not_of("imx-") == std::string_view::npos;
  return are_options ? rest.substr(0, end + 1) : "";
}

/// Translates an expression to ICU's syntax.
class Translation {
 public:
  Translation(std::string_view expression, const std::string& where) : expression_(expression), where_(where) {}

  std::string result() {
    for (std::size_t i = 0; i < expression_.size();) i += take(expression_.substr(i));
    return std::move(result_);
  }

 private:
  struct Group {
    std::size_t begin = 0;
    bool has_options = false;  // that hold for the rest of the group
  };

  /// Translates what begins the text. Returns how many bytes it took.
  std::size_t take(std::string_view rest) {
    if (rest[0] == '\\' && rest.size() > 1) return take_escape(rest);
    refuse_group(rest, where_);
    if (depth_ > 0 || rest[0] == '[') return take_set(rest[0]);
    if (const std::string_view options = options_at(rest); !options.empty()) {
      const std::size_t taken = result_.size() - groups_.back().begin;
      const bool begins_an_alternative =
          taken == (groups_.size() > 1 ? 1U : 0U) || result_.back() == '|' || result_.ends_with("(?:");
      if (!begins_an_alternative) groups_.back().has_options = true;
      result_ += options;
      return options.size();
    }
    if (rest[0] == '{')
      if (const std::string_view interval = interval_at(rest); !interval.empty()) return take_interval(rest, interval);
    if (rest[0] == '|' && groups_.back().has_options)  // Ruby's options hold for what is behind the bar, in one group
      throw core::Error(where_ + ": options such as (?i) before a '|' in a regular expression are not supported");
    if (rest[0] == '{' || rest[0] == '}') {  // of no interval: itself
      atom_ = result_.size();
      result_ += '\\';
      result_ += rest[0];
      return 1;
    }
    const bool is_quantifier = rest[0] == '*' || rest[0] == '+' || rest[0] == '?';
    if (!is_quantifier && !core::is_continuation(rest[0])) atom_ = result_.size();
    if (rest[0] == '(') groups_.push_back({.begin = result_.size()});
    if (rest[0] == ')' && groups_.size() > 1) {
      atom_ = groups_.back().begin;
      groups_.pop_back();
    }
    result_ += rest[0];
    return 1;
  }

  std::size_t take_escape(std::string_view rest) {
    constexpr std::string_view kDifferent = "HKNOyYgGZbBXRMCk";
    const std::string_view escape = escape_at(rest, 0);
    if (kDifferent.find(escape[1]) != std::string_view::npos)
      throw core::Error(where_ + ": '" + std::string(escape) + "' in a regular expression is not supported");
    if (depth_ == 0) atom_ = result_.size();
    const std::string instead = translated(escape, depth_ > 0 ? Place::brackets : Place::alone);
    result_ += instead.empty() ? escape : std::string_view(instead);
    return escape.size();
  }

  std::size_t take_set(char c) {
    if (depth_ == 0) atom_ = result_.size();
    if (c == '[') ++depth_;
    if (c == ']') --depth_;
    result_ += c;
    return 1;
  }

  /// In Ruby, `a{2}+` is `(?:a{2})+` and `a{2}?` is `(?:a{2})?`. ICU's are possessive and lazy.
  std::size_t take_interval(std::string_view rest, std::string_view interval) {
    result_ += interval;
    const char next = rest.size() > interval.size() ? rest[interval.size()] : '\0';
    if (next != '+' && (next != '?' || interval.find(',') != std::string_view::npos)) return interval.size();
    result_.insert(atom_, "(?:");
    result_ += ')';
    result_ += next;
    return interval.size() + 1;
  }

  std::string_view expression_;
  const std::string& where_;
  std::string result_;
  std::size_t atom_ = 0;  // where the last thing that may be repeated begins in result_
  int depth_ = 0;         // open brackets
  std::vector<Group> groups_{Group{}};
};

/// Time limit for one text. Some expressions need exponential time; ordinary ones take a thousandth of the limit.
class Budget {
 public:
  explicit Budget(std::size_t text_bytes)
      : end_(Clock::now() + std::chrono::seconds(2) + std::chrono::microseconds(20) * text_bytes) {}

  static UBool is_left_while_matching(const void* budget, std::int32_t) {
    return Clock::now() < static_cast<const Budget*>(budget)->end_;
  }
  static UBool is_left_while_searching(const void* budget, std::int64_t) {
    return Clock::now() < static_cast<const Budget*>(budget)->end_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

class RegexPattern final : public Pattern {
 public:
  RegexPattern(std::string_view expression, const std::string& where) : where_(where) {
    constexpr std::size_t kMostBytes = std::size_t{64} << 10;  // known tokenizers have a few hundred
    if (expression.size() > kMostBytes)
      throw core::Error(where + ": a regular expression of " + core::format_count(expression.size()) +
                        " bytes; expected at most " + core::format_count(kMostBytes));
    UErrorCode status = U_ZERO_ERROR;
    UParseError place{};
    const std::string text = Translation(expression, where).result();
    OpenText opened(text);
    // In Ruby, ^ and $ match at every line, and only \n ends a line.
    regex_.reset(uregex_openUText(opened.get(), UREGEX_MULTILINE | UREGEX_UNIX_LINES, &place, &status));
    if (U_FAILURE(status))
      throw core::Error(where + ": cannot read the regular expression at character " + std::to_string(place.offset) +
                        ": " + u_errorName(status));
  }

  void find(std::string_view text, std::vector<Match>& matches) const override {
    UErrorCode status = U_ZERO_ERROR;
    const Regex regex(uregex_clone(regex_.get(), &status));  // ICU matchers are not thread-safe: one per call
    uregex_setStackLimit(regex.get(), kStackBytes, &status);
    Budget budget(text.size());
    uregex_setMatchCallback(regex.get(), Budget::is_left_while_matching, &budget, &status);
    uregex_setFindProgressCallback(regex.get(), Budget::is_left_while_searching, &budget, &status);
    OpenText opened(text);
    uregex_setUText(regex.get(), opened.get(), &status);
    while (U_SUCCESS(status) && uregex_findNext(regex.get(), &status)) {
      const std::int64_t begin = uregex_start64(regex.get(), 0, &status);
      const std::int64_t end = uregex_end64(regex.get(), 0, &status);
      if (U_SUCCESS(status)) matches.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(end)});
    }
    if (status == U_REGEX_STOPPED_BY_CALLER || status == U_REGEX_STACK_OVERFLOW)
      throw core::Error(where_ + ": the regular expression takes too long for a text of " +
                        core::format_count(text.size()) + " bytes: the matcher tries too many ways to match")
          .hint("write it without nested repetitions, such as (a+)+");
    if (U_FAILURE(status)) throw core::Error(where_ + ": cannot match a text: " + u_errorName(status));
  }

 private:
  std::string where_;
  Regex regex_;
};

}  // namespace

std::unique_ptr<Pattern> regex_pattern(std::string_view expression, const std::string& where) {
  return std::make_unique<RegexPattern>(expression, where);
}

}  // namespace trainctl::tokenizer

#include "complete.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "complete_value.h"
#include "core/text.h"

namespace trainctl::cli {
namespace {

/// Whether words after the first belong to the option, too, until the next option.
bool takes_many(const CLI::Option& option) {
  return option.get_items_expected_max() > 1 && option.get_allow_extra_args();
}

/// The state of a command line before the cursor.
class Line {
 public:
  explicit Line(const CLI::App& program) : command_(&program) {}

  void read(const std::string& word) {
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (open_ != nullptr && !(is_option && has_value_)) return read_value(word);
    open_ = nullptr;
    if (is_option) return read_option(word);
    for (const CLI::App* sub : command_->get_subcommands({}))
      if (sub->get_name() == word) {
        command_ = sub;
        return positionals_.clear();
      }
    positionals_.push_back(word);
  }

  Completion complete(const std::string& word) const {
    const bool is_option = word.starts_with('-');
    if (open_ != nullptr && !(is_option && has_value_)) return value(*open_, word);
    if (const auto equals = word.find('='); is_option && equals != std::string::npos) {
      const CLI::Option* option = command_->get_option_no_throw(word.substr(0, equals));
      if (option == nullptr) return {};
      return with_prefix(word.substr(0, equals + 1), value(*option, word.substr(equals + 1)));
    }
    if (is_option) return options(word);
    if (const Completion found = subcommands(word); !found.candidates.empty()) return found;
    const CLI::Option* positional = positional_at_cursor();
    if (positional != nullptr) return value(*positional, word);
    return word.empty() ? options(word) : Completion{};
  }

 private:
  void read_option(const std::string& word) {
    const auto equals = word.find('=');
    const CLI::Option* option = command_->get_option_no_throw(word.substr(0, equals));
    if (option == nullptr || option->get_items_expected_max() == 0) return;
    open_ = option;
    has_value_ = false;
    if (equals != std::string::npos) read_value(word.substr(equals + 1));
  }

  void read_value(const std::string& word) {
    if (open_->get_name() == "--set") sets_.push_back(word);
    has_value_ = true;
    if (!takes_many(*open_)) open_ = nullptr;
  }

  Completion value(const CLI::Option& option, const std::string& word) const {
    return complete_value({.option = option,
                           .word = word,
                           .experiment = positionals_.empty() ? "" : positionals_.front(),
                           .sets = sets_});
  }

  static Completion with_prefix(const std::string& prefix, Completion completion) {
    for (Candidate& candidate : completion.candidates) candidate.text.insert(0, prefix);
    completion.paths = Paths::none;  // the shell would look for a file whose name begins with the option
    return completion;
  }

  Completion options(const std::string& word) const {
    Completion found;
    for (const CLI::Option* option : command_->get_options({}))
      for (const std::string& name : option->get_lnames())
        if (const std::string text = "--" + name; text.starts_with(word) && !option->get_group().empty())
          found.candidates.push_back({text, option->get_description()});
    return found;
  }

  Completion subcommands(const std::string& word) const {
    Completion found;
    for (const CLI::App* sub : command_->get_subcommands({}))
      if (sub->get_name().starts_with(word) && !sub->get_group().empty())
        found.candidates.push_back({sub->get_name(), sub->get_description()});
    return found;
  }

  const CLI::Option* positional_at_cursor() const {
    std::size_t place = positionals_.size();
    for (const CLI::Option* option : command_->get_options({})) {
      if (!option->get_positional()) continue;
      const auto count = static_cast<std::size_t>(std::max(1, option->get_items_expected_max()));
      if (place < count) return option;
      place -= count;
    }
    return nullptr;
  }

  const CLI::App* command_;
  const CLI::Option* open_ = nullptr;  // takes the next word
  bool has_value_ = false;             // of the open option
  std::vector<std::string> positionals_;
  std::vector<std::string> sets_;
};

/// Returns the text on one line: the protocol has a line per candidate.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

}  // namespace

Completion complete(const CLI::App& program, std::span<const std::string> words) {
  Line line(program);
  if (words.empty()) return line.complete("");
  for (const std::string& word : words.first(words.size() - 1)) line.read(word);
  return line.complete(words.back());
}

void print_completion(const Completion& completion) {
  constexpr const char* kPaths[] = {"none", "directories", "experiments", "files"};
  for (const Candidate& candidate : completion.candidates)
    std::printf("%s\t%s\n", one_line(candidate.text).c_str(), one_line(candidate.help).c_str());
  std::printf(":%s\n", kPaths[static_cast<std::size_t>(completion.paths)]);
}

}  // namespace trainctl::cli

// Options whose words are the enumerators of a type. Parsing, help, completion and docs/kinds.md take them from the
// type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "config/field.h"
#include "engine_call.h"

namespace trainctl::cli {

/// A word that an option takes, and its meaning in a phrase.
struct OptionWord {
  std::string_view name;
  std::string_view meaning;
};

std::string_view meaning_of(ExportFormat format);
std::string_view meaning_of(quantization::QuantizationMethod method);

template <config::Enumeration Word>
std::vector<OptionWord> option_words() {
  std::vector<OptionWord> words;
  for (const std::string_view name : config::names_of<Word>())
    words.push_back({name, meaning_of(*config::enumerator_named<Word>(name))});
  return words;
}

/// Writes the help of an option: each word with its meaning.
template <config::Enumeration Word>
std::string help_of_words() {
  std::string help;
  for (const OptionWord& word : option_words<Word>())
    help += (help.empty() ? "" : "; ") + std::string(word.name) + ": " + std::string(word.meaning);
  return help;
}

/// Adds an option that takes the name of an enumerator. `value` is a Word, or an optional one.
template <config::Enumeration Word, class Value>
CLI::Option* add_word_option(CLI::App& app, const std::string& name, Value& value, const std::string& help) {
  const std::vector<std::string_view> names = config::names_of<Word>();
  const auto take = [&value](const std::string& word) { value = *config::enumerator_named<Word>(word); };
  return app.add_option_function<std::string>(name, take, help)
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
}

}  // namespace trainctl::cli

#include "config/reference.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "config/emit.h"
#include "config/problems.h"
#include "config/read.h"
#include "config/write.h"
#include "core/text.h"

namespace trainctl::config {
namespace {

/// Escapes a text for a table's cell.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

std::string code_words(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "`" : ", `") + std::string(word) + "`";
  return text;
}

bool is_section(const Shape& shape) {
  if (shape.element != nullptr) return is_section(*shape.element);
  return shape.form == Form::structure || shape.form == Form::one_of;
}

const Shape& innermost(const Shape& shape) {
  return shape.element == nullptr ? shape : innermost(*shape.element);
}

std::string plural_text(const Shape& shape, const Limits& limits) {
  const std::string range = range_text(limits);
  return std::string(shape.form == Form::integer  ? "integers"
                     : shape.form == Form::number ? "numbers"
                                                  : "strings") +
         (range.empty() ? "" : " " + range);
}

std::string type_text(const Shape& shape, const Limits& limits) {
  const std::string range = range_text(limits);
  const std::string suffix = range.empty() ? "" : " " + range;
  switch (shape.form) {
    case Form::boolean:
      return "`true`, `false`";
    case Form::integer:
      return "integer" + suffix;
    case Form::number:
      return "number" + suffix;
    case Form::text:
      return "string";
    case Form::word:
      return code_words(shape.words);
    case Form::list:
      return is_section(shape) ? "list of mappings, below" : "list of " + plural_text(*shape.element, limits);
    case Form::optional:
      return type_text(*shape.element, limits) + ", or `null`";
    case Form::auto_or:
      return "`auto`, or " + type_text(*shape.element, limits);
    case Form::structure:
    case Form::one_of:
      return "mapping, below";
  }
  return "";
}

std::string default_text(const Key& key, const void* owner) {
  if (key.limits.required) return "**required**";
  const Node value = write_value(*key.shape, key.in(owner));
  if (is_inline(value)) return "`" + emit_inline(value) + "`";
  const Node* kind = value.find("kind");
  return kind == nullptr ? "" : "`" + kind->text + "`";
}

/// Returns the anchor that GitHub gives a heading.
std::string anchor(std::string_view heading) {
  std::string text = "#";
  for (const char c : heading) {
    if (c == ' ') text += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

class ReferenceWriter {
 public:
  std::string take() { return std::move(out_); }

  void line(const std::string& text) { out_ += text + "\n"; }

  /// Writes the tables of the shape at `path`, then of the shapes inside.
  void section(const Shape& shape, const std::string& path, std::string_view help, int level) {
    heading(path, level);
    if (!help.empty()) line(std::string(help) + "\n");
    if (shape.form == Form::one_of) return kinds(shape, path.ends_with("]"), path, level);  // an item says its kind
    if (!shape.keys.empty()) table(shape);
    if (shape.choice) {
      line(std::string(shape.choice->help) + " The keys of its `kind` stand beside those above.\n");
      kinds(*shape.choice->shape, shape.choice->limits.required, path, level);
    }
    sections_inside(shape, path, level);
  }

 private:
  void heading(const std::string& text, int level) {
    line(std::string(static_cast<std::size_t>(std::min(level, 6)), '#') + " `" + text + "`\n");
  }

  void table(const Shape& shape) {
    const std::shared_ptr<void> example = shape.make();
    line("| key | value | default | meaning |\n|---|---|---|---|");
    for (const Key& key : shape.keys)
      line("| `" + std::string(key.name) + "` | " + cell(type_text(*key.shape, key.limits)) + " | " +
           cell(default_text(key, example.get())) + " | " + cell(std::string(key.help)) + " |");
    line("");
  }

  void kinds(const Shape& one_of, bool required, const std::string& path, int level) {
    const std::shared_ptr<void> value = one_of.make();
    line("`kind` is one of " + code_words(one_of.words) +
         (one_of.words.size() > 1
              ? std::string(required ? ""
                                     : "; `" + std::string(one_of.words[one_of.count(value.get())]) + "` unless given")
              : "") +
         ".\n");
    std::map<std::string, std::vector<std::string_view>> elsewhere;  // kinds by the path that has their keys
    for (std::size_t i = 0; i < one_of.words.size(); ++i)
      if (const auto written = written_.find(one_of.alternatives[i]); written != written_.end())
        elsewhere[written->second].push_back(one_of.words[i]);
    for (const auto& [other, words] : elsewhere)
      line("The keys of " + (words.size() == one_of.words.size() ? "each kind" : code_words(words)) +
           " are those in [`" + other + "`](" + anchor(other) + ").\n");
    for (std::size_t i = 0; i < one_of.words.size(); ++i) {
      if (written_.contains(one_of.alternatives[i])) continue;
      if (!one_of.alternatives[i]->keys.empty()) written_.emplace(one_of.alternatives[i], path);
      heading(path + ": {kind: " + std::string(one_of.words[i]) + "}", level + 1);
      const Shape& alternative = *one_of.alternatives[i];
      if (alternative.keys.empty())
        line("No keys of its own.\n");
      else
        table(alternative);
      sections_inside(alternative, path, level + 1);
    }
  }

  void sections_inside(const Shape& shape, const std::string& path, int level) {
    for (const Key& key : shape.keys)
      if (is_section(*key.shape))
        section(innermost(*key.shape), join_path(path, key.name) + (key.shape->form == Form::list ? "[]" : ""),
                key.help, level + 1);
  }

  std::string out_;
  std::map<const Shape*, std::string> written_;  // alternatives, with the path that has their keys
};

}  // namespace

std::string markdown_reference(const Shape& root, const std::string& title) {
  ReferenceWriter writer;
  writer.line("# " + title + "\n");
  writer.line(
      "Generated by `trainctl config reference`. A word where a mapping with a `kind` is expected is short for it: "
      "`optimizer: sgd` is `optimizer: {kind: sgd}`. `base: other.yaml` lays this file over another.\n");
  const std::shared_ptr<void> example = root.make();
  writer.line("| key | value | default | meaning |\n|---|---|---|---|");
  for (const Key& key : root.keys)
    writer.line("| `" + std::string(key.name) + "` | " + cell(type_text(*key.shape, key.limits)) + " | " +
                default_text(key, example.get()) + " | " + cell(std::string(key.help)) + " |");
  writer.line("");
  for (const Key& key : root.keys)
    if (is_section(*key.shape)) writer.section(innermost(*key.shape), std::string(key.name), key.help, 2);
  return writer.take();
}

}  // namespace trainctl::config

#include "config/reference.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

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
  if (shape.form == Form::word) return code_words(shape.words);
  const std::string range = range_text(limits);
  return std::string(shape.form == Form::integer  ? "integers"
                     : shape.form == Form::number ? "numbers"
                                                  : "strings") +
         (range.empty() ? "" : " " + range);
}

/// Writes what a key takes. `link` is the address of the keys of a mapping inside.
std::string type_text(const Shape& shape, const Limits& limits, const std::string& link) {
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
      return is_section(shape) ? "list of [mappings](" + link + ")" : "list of " + plural_text(*shape.element, limits);
    case Form::optional:
      return type_text(*shape.element, limits, link) + ", or `null`";
    case Form::auto_or:
      return "`auto`, or " + type_text(*shape.element, limits, link);
    case Form::structure:
    case Form::one_of:
      return "[mapping](" + link + ")";
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

std::string link_to(const std::string& heading, std::string_view text) {
  return "[`" + std::string(text) + "`](" + anchor(heading) + ")";
}

std::string title_line(const std::string& text, int level) {
  return std::string(static_cast<std::size_t>(std::min(level, 6)), '#') + " " + text + "\n\n";
}

/// A mapping that stands inside another one and has its own section.
struct Inner {
  const Shape* shape;
  std::string path;
  std::string heading;
  std::string_view help;
};

class ReferenceWriter {
 public:
  explicit ReferenceWriter(const SectionExamples& examples) : examples_(examples) {}

  /// Writes the table of the whole file, then a section for each mapping of the root.
  void document(const Shape& root) {
    const std::vector<Inner> sections = table(root, "", "");
    for (const Inner& inner : sections) {
      index_ += "- " + link_to(inner.heading, inner.path);
      separator_ = ": ";
      section(inner, "", 2);
      index_ += "\n";
    }
  }

  const std::string& index() const { return index_; }
  const std::string& body() const { return body_; }

  /// Returns a section for each mapping with a `kind`, which links each kind to its place in the reference.
  std::string kind_lists(const std::string& reference) const {
    std::string text;
    for (const Inner& list : lists_of_kinds_) {
      text += title_line(list.heading, 2);
      if (!list.help.empty()) text += std::string(list.help) + "\n\n";
      const Shape& kinds = *list.shape->kinds();
      for (std::size_t i = 0; i < kinds.words.size(); ++i) {
        const auto own = kind_headings_.find(kinds.alternatives[i]);
        const std::string& place = own == kind_headings_.end() ? list.heading : own->second;
        text += (i == 0 ? "[`" : ", [`") + std::string(kinds.words[i]) + "`](" + reference + anchor(place) + ")";
      }
      text += "\n\n";
    }
    return text;
  }

 private:
  void line(const std::string& text) { body_ += text + "\n"; }

  void heading(const std::string& text, int level) { body_ += title_line(text, level); }

  void add_to_index(const std::string& heading, std::string_view text) {
    index_ += separator_ + link_to(heading, text);
    separator_ = ", ";
  }

  /// Writes the section of a mapping. `kind` is the kind whose keys it stands among, if it does.
  void section(const Inner& inner, const std::string& kind, int level) {
    const Shape& shape = *inner.shape;
    heading(inner.heading, level);
    if (!inner.help.empty()) line(std::string(inner.help) + "\n");
    if (level == 2) example(inner.path);
    if (level == 3 && kind.empty()) add_to_index(inner.heading, inner.path.substr(inner.path.find('.') + 1));
    if (shape.kinds() != nullptr) add_list_of_kinds(inner);
    if (shape.form == Form::one_of) return kinds(shape, inner.path.ends_with("]"), inner.path, level);
    const std::vector<Inner> inside = table(shape, inner.path, kind);
    if (shape.choice) {
      line(std::string(shape.choice->help) + " The keys of its `kind` stand beside those above.\n");
      kinds(*shape.choice->shape, shape.choice->limits.required, inner.path, level);
    }
    for (const Inner& next : inside) section(next, kind, level + 1);
  }

  /// Keeps the list, unless an earlier one has all of its kinds.
  void add_list_of_kinds(const Inner& inner) {
    const auto& kinds = inner.shape->kinds()->alternatives;
    const bool is_known = std::ranges::all_of(kinds, [this](const Shape* kind) { return listed_.contains(kind); });
    if (!is_known) lists_of_kinds_.push_back(inner);
    listed_.insert(kinds.begin(), kinds.end());
  }

  void example(const std::string& section) {
    const auto found = examples_.find(section);
    if (found != examples_.end()) line("```yaml\nbase: base.yaml\n" + std::string(found->second) + "```\n");
  }

  /// Writes the table of a mapping's keys, and returns the mappings inside that have no section yet.
  std::vector<Inner> table(const Shape& shape, const std::string& path, const std::string& kind) {
    std::vector<Inner> inside;
    body_ += table_text(shape, path, kind, inside) + "\n";
    return inside;
  }

  std::string table_text(const Shape& shape, const std::string& path, const std::string& kind,
                         std::vector<Inner>& inside) {
    if (shape.keys.empty()) return "";
    const std::shared_ptr<void> example = shape.make();
    std::string text = "| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const Key& key : shape.keys)
      text += "| `" + std::string(key.name) + "` | " +
              cell(type_text(*key.shape, key.limits, link_of(key, path, kind, inside))) + " | " +
              cell(default_text(key, example.get())) + " | " + cell(std::string(key.help)) + " |\n";
    return text;
  }

  /// Returns the address of the keys of a mapping. A mapping that is seen for the first time goes to `inside`.
  std::string link_of(const Key& key, const std::string& path, const std::string& kind, std::vector<Inner>& inside) {
    if (!is_section(*key.shape)) return "";
    const Shape& shape = innermost(*key.shape);
    const std::string own_path = join_path(path, key.name) + (key.shape->form == Form::list ? "[]" : "");
    const std::string own_heading = "`" + own_path + "`" + (kind.empty() ? "" : " of `" + kind + "`");
    const auto [place, is_new] = headings_.emplace(&shape, own_heading);
    if (is_new) inside.push_back({&shape, own_path, own_heading, key.help});
    return anchor(place->second);
  }

  void kinds(const Shape& one_of, bool required, const std::string& path, int level) {
    const std::shared_ptr<void> value = one_of.make();
    line("`kind` is one of " + code_words(one_of.words) +
         (one_of.words.size() > 1
              ? std::string(required ? ""
                                     : "; `" + std::string(one_of.words[one_of.count(value.get())]) + "` unless given")
              : "") +
         ".\n");
    write_kinds_of_other_places(one_of);
    std::vector<std::string_view> without_keys;
    for (std::size_t i = 0; i < one_of.words.size(); ++i)
      if (one_of.alternatives[i]->keys.empty()) {
        without_keys.push_back(one_of.words[i]);
        if (level == 2) add_to_index(path, one_of.words[i]);
      }
    if (!without_keys.empty())
      line(code_words(without_keys) + (without_keys.size() == 1 ? " has" : " have") + " no keys of " +
           (without_keys.size() == 1 ? "its" : "their") + " own.\n");
    for (std::size_t i = 0; i < one_of.words.size(); ++i)
      if (!one_of.alternatives[i]->keys.empty() && !written_.contains(one_of.alternatives[i]))
        write_kind(one_of, i, path, level + 1);
  }

  /// Tells which kinds have their keys in another section.
  void write_kinds_of_other_places(const Shape& one_of) {
    std::map<std::string, std::vector<std::string_view>> elsewhere;  // by the path that has their keys
    for (std::size_t i = 0; i < one_of.words.size(); ++i)
      if (const auto written = written_.find(one_of.alternatives[i]); written != written_.end())
        elsewhere[written->second].push_back(one_of.words[i]);
    for (const auto& [other, words] : elsewhere)
      line("The keys of " + (words.size() == one_of.words.size() ? "each kind" : code_words(words)) +
           " are those in [`" + other + "`](" + anchor(other) + ").\n");
  }

  /// Whether a mapping inside has no section of its own yet.
  bool has_new_sections(const Shape& structure) const {
    return std::ranges::any_of(structure.keys, [&](const Key& key) {
      return is_section(*key.shape) && !headings_.contains(&innermost(*key.shape));
    });
  }

  /// Writes a kind, together with the later ones that have the very same keys.
  void write_kind(const Shape& one_of, std::size_t first, const std::string& path, int level) {
    std::vector<Inner> inside;
    const std::string kind(one_of.words[first]);
    const std::string text = table_text(*one_of.alternatives[first], path, kind, inside);
    std::string title = "`" + path + ": {kind: " + kind + "}`";
    std::vector<std::size_t> equal{first};
    for (std::size_t i = first + 1; i < one_of.words.size() && inside.empty(); ++i) {
      const Shape& other = *one_of.alternatives[i];
      std::vector<Inner> none;
      if (written_.contains(&other) || has_new_sections(other) || table_text(other, path, kind, none) != text) continue;
      equal.push_back(i);
      title += ", `" + std::string(one_of.words[i]) + "`";
    }
    for (const std::size_t i : equal) {
      written_.emplace(one_of.alternatives[i], path);
      kind_headings_.emplace(one_of.alternatives[i], title);
      if (level == 3) add_to_index(title, one_of.words[i]);
    }
    heading(title, level);
    line(text);
    for (const Inner& next : inside) section(next, kind, level + 1);
  }

  const SectionExamples& examples_;
  std::string index_;
  std::string separator_;
  std::string body_;
  std::map<const Shape*, std::string> headings_;  // of mappings that have their own section
  std::map<const Shape*, std::string> written_;   // kinds with keys, and the path that has their keys
  std::map<const Shape*, std::string> kind_headings_;
  std::vector<Inner> lists_of_kinds_;
  std::set<const Shape*> listed_;  // kinds of these
};

}  // namespace

std::string markdown_reference(const Shape& root, const std::string& title, const SectionExamples& examples) {
  ReferenceWriter writer(examples);
  writer.document(root);
  std::string text = "# " + title + "\n\n";
  text +=
      "Generated by `trainctl config reference`. A word where a mapping with a `kind` is expected is short for it: "
      "`optimizer: sgd` is `optimizer: {kind: sgd}`. `base: other.yaml` lays this file over another.\n\n";
  text += writer.index() + "\n";
  if (const auto base = examples.find(""); base != examples.end())
    text += "The example of each section lies over this file, `base.yaml`, and changes one thing of it:\n\n```yaml\n" +
            std::string(base->second) + "```\n\n";
  return text + writer.body();
}

std::string markdown_kinds(const Shape& root, const std::string& reference) {
  const SectionExamples none;
  ReferenceWriter writer(none);
  writer.document(root);
  return writer.kind_lists(reference);
}

}  // namespace trainctl::config

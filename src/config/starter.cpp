#include "config/starter.h"

#include <algorithm>

#include "config/emit.h"
#include "config/write.h"

namespace trainctl::config {
namespace {

constexpr std::size_t kCommentColumn = 34;

/// The reason why a key is written; a default is commented out.
enum class Saying { the_default, a_choice };

/// Returns the words that this place takes: "cosine | linear", or "".
std::string hint(const Shape& shape) {
  if (shape.form != Form::word && shape.form != Form::one_of) return "";
  std::string words;
  for (const std::string_view word : shape.words) words += (words.empty() ? "" : " | ") + std::string(word);
  return words;
}

/// Returns whether a value equals the defaults; false without defaults, so that all is written.
bool is_default(const Shape& shape, const void* value, const void* defaults) {
  return defaults != nullptr && emit(write_value(shape, value)) == emit(write_value(shape, defaults));
}

class StarterWriter {
 public:
  std::string take() { return std::move(out_); }

  /// Writes the keys of a mapping. `defaults` is null where everything must be written, as inside a list.
  void keys(const Shape& shape, const void* value, const void* defaults, std::size_t indent) {
    const bool same = is_default(shape, value, defaults);
    for (std::size_t i = 0; i <= shape.keys.size(); ++i) {
      if (shape.choice && shape.choice_position == i)
        kind(*shape.choice->shape, shape.choice->in(value),
             same && !shape.choice->limits.required ? Saying::the_default : Saying::a_choice, indent);
      if (i < shape.keys.size()) key(shape.keys[i], value, defaults, indent);
    }
  }

  /// Writes `kind:` of a one_of, then the keys of that kind.
  void kind(const Shape& one_of, const void* value, Saying saying, std::size_t indent) {
    const std::size_t index = one_of.count(value);
    line(indent, saying, "kind: " + std::string(one_of.words[index]), hint(one_of));
    const Shape& alternative = *one_of.alternatives[index];
    const std::shared_ptr<void> plain = alternative.make();
    keys(alternative, one_of.get(value, 0), plain.get(), indent);
  }

 private:
  void key(const Key& key, const void* owner, const void* default_owner, std::size_t indent) {
    const void* value = key.in(owner);
    const void* was = default_owner == nullptr ? nullptr : key.in(default_owner);
    const Node node = write_value(*key.shape, value);
    const Saying saying =
        !key.limits.required && is_default(*key.shape, value, was) ? Saying::the_default : Saying::a_choice;
    const std::string name(key.name);
    if (is_inline(node)) {
      const std::string words = hint(*key.shape);
      return line(indent, saying, name + ": " + emit_inline(node),
                  std::string(key.help) + (words.empty() || key.shape->form != Form::word ? "" : " " + words));
    }
    if (indent == 0) out_ += '\n';
    line(indent, saying, name + ":", std::string(key.help));
    inside(*key.shape, value, was, indent + 2);
  }

  void inside(const Shape& shape, const void* value, const void* defaults, std::size_t indent) {
    if (shape.form == Form::structure) return keys(shape, value, defaults, indent);
    if (shape.form == Form::one_of)
      return kind(shape, value, is_default(shape, value, defaults) ? Saying::the_default : Saying::a_choice, indent);
    if (shape.form == Form::list) {
      for (std::size_t i = 0; i < shape.count(value); ++i)
        line(indent, Saying::a_choice, "- " + flow(write_value(*shape.element, shape.get(value, i))), "");
      return;
    }
    const std::shared_ptr<void> plain = shape.element->make();
    inside(*shape.element, shape.get(value, 0), plain.get(), indent);
  }

  /// Returns a list's mapping in one line: `{kind: normalize, mean: [0.5]}`.
  static std::string flow(const Node& node) {
    if (is_inline(node)) return emit_inline(node);
    std::string text;
    for (const Node::Entry& entry : node.entries)
      text += (text.empty() ? "{" : ", ") + entry.key + ": " + flow(entry.value);
    for (const Node& item : node.items) text += (text.empty() ? "[" : ", ") + flow(item);
    return text + (node.kind == NodeKind::mapping ? "}" : "]");
  }

  /// Writes a line. Its '#' stands in the first column, so that removing it leaves the right indentation.
  void line(std::size_t indent, Saying saying, const std::string& text, const std::string& comment) {
    std::string whole = (saying == Saying::the_default ? "#" : "") + std::string(indent, ' ') + text;
    if (!comment.empty()) {
      whole.resize(std::max(whole.size() + 2, kCommentColumn), ' ');
      whole += "# " + comment;
    }
    out_ += whole + '\n';
  }

  std::string out_;
};

}  // namespace

std::string starter_text(const Shape& shape, const void* value) {
  const std::shared_ptr<void> defaults = shape.make();
  StarterWriter writer;
  writer.keys(shape, value, defaults.get(), 0);
  return writer.take();
}

}  // namespace trainctl::config

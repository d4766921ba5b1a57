#include "config/short_form.h"

#include <algorithm>

namespace trainctl::config {

bool is_short_form(const Shape& shape, const Node& node) {
  if (shape.word_key().empty()) return false;
  const Key* key = shape.find(shape.word_key());
  if (key != nullptr && key->shape->form == Form::list)  // `train: texts.csv` or `train: [a.csv, b.csv]`
    return node.kind == NodeKind::scalar || node.kind == NodeKind::sequence;
  return node.kind == NodeKind::scalar && node.style == ScalarStyle::plain;
}

Node long_form(const Shape& shape, const Node& word) {
  Node mapping = Node::mapping(word.origin);
  mapping.add(std::string(shape.word_key()), word.origin, word);
  return mapping;
}

bool is_single_item(const Shape& shape, const Node& node) {
  return shape.form == Form::list && node.kind == NodeKind::scalar && shape.element->form != Form::list;
}

Node list_of_one(const Node& item) {
  Node list{.kind = NodeKind::sequence, .origin = item.origin};
  list.items.push_back(item);
  return list;
}

void expand_short_forms(const Shape& shape, Node& node, const Node* under) {
  if (is_single_item(shape, node)) node = list_of_one(node);
  if (shape.form == Form::list)
    for (Node& item : node.items) expand_short_forms(*shape.element, item);
  if (shape.form == Form::optional || shape.form == Form::auto_or) {
    // A word that the outer form takes for itself stays.
    if (shape.form == Form::auto_or && node.is_word("auto")) return;
    return expand_short_forms(*shape.element, node, under);
  }
  if (is_short_form(shape, node)) node = long_form(shape, node);
  if (node.kind != NodeKind::mapping) return;
  const Shape* kinds = shape.kinds();
  const auto below = [&](std::string_view key) {
    return under != nullptr && under->kind == NodeKind::mapping ? under->find(key) : nullptr;
  };
  const Node* kind = node.find("kind");
  if (kind == nullptr) kind = below("kind");
  const Shape* alternative = nullptr;
  if (kinds != nullptr) {
    const auto found = std::find(kinds->words.begin(), kinds->words.end(),
                                 kind == nullptr ? kinds->words[0] : std::string_view(kind->text));
    if (found != kinds->words.end())
      alternative = kinds->alternatives[static_cast<std::size_t>(found - kinds->words.begin())];
  }
  for (Node::Entry& entry : node.entries) {
    if (const Key* key = shape.find(entry.key))
      expand_short_forms(*key->shape, entry.value, below(entry.key));
    else if (const Key* own = alternative != nullptr ? alternative->find(entry.key) : nullptr)
      expand_short_forms(*own->shape, entry.value, below(entry.key));
  }
}

}  // namespace trainctl::config

#include "config/node.h"

#include <charconv>
#include <utility>

namespace trainctl::config {

std::string Origin::text() const {
  switch (kind) {
    case OriginKind::file:
      return source + ":" + std::to_string(line) + ":" + std::to_string(column);
    case OriginKind::command_line:
      return source;
    case OriginKind::default_value:
      return "default";
  }
  return "default";
}

Node Node::scalar(std::string text, ScalarStyle style, Origin origin) {
  Node node;
  node.kind = NodeKind::scalar;
  node.style = style;
  node.text = std::move(text);
  node.origin = std::move(origin);
  return node;
}

Node Node::sequence(Origin origin) {
  Node node;
  node.kind = NodeKind::sequence;
  node.origin = std::move(origin);
  return node;
}

Node Node::mapping(Origin origin) {
  Node node;
  node.kind = NodeKind::mapping;
  node.origin = std::move(origin);
  return node;
}

const Node::Entry* Node::find_entry(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

const Node* Node::find(std::string_view key) const {
  const Entry* entry = find_entry(key);
  return entry == nullptr ? nullptr : &entry->value;
}

Node* Node::find(std::string_view key) {
  return const_cast<Node*>(std::as_const(*this).find(key));
}

Node& Node::add(std::string key, Origin key_origin, Node value) {
  entries.push_back({std::move(key), std::move(key_origin), std::move(value)});
  return entries.back().value;
}

bool Node::is_word(std::string_view word) const {
  return kind == NodeKind::scalar && style == ScalarStyle::plain && text == word;
}

const Node* find_path(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (node != nullptr && !path.empty()) {
    if (path.front() == '[') {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(path.data() + 1, path.data() + path.size(), index);
      if (error != std::errc() || index >= node->items.size()) return nullptr;
      node = &node->items[index];
      path.remove_prefix(static_cast<std::size_t>(end - path.data()) + 1);  // and the ']'
    } else {
      if (path.front() == '.') path.remove_prefix(1);
      const std::size_t end = std::min(path.find_first_of(".["), path.size());
      node = node->find(path.substr(0, end));
      path.remove_prefix(end);
    }
  }
  return node;
}

Origin origin_of(const Node& root, std::string_view path) {
  while (true) {
    const Node* node = find_path(root, path);
    if (node != nullptr && node->origin.kind != OriginKind::default_value) return node->origin;
    const std::size_t end = path.find_last_of(".[");
    if (end == std::string_view::npos) return root.origin;
    path = path.substr(0, end);
  }
}

}  // namespace trainctl::config

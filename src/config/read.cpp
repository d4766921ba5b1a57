#include "config/read.h"

#include "config/read_scalar.h"
#include "config/short_form.h"
#include "core/text.h"

namespace trainctl::config {
namespace {

/// Returns the path of a key called `name` anywhere under `shape`, or "".
std::string find_elsewhere(const Shape& shape, std::string_view name, const std::string& path) {
  if (shape.element != nullptr) return shape.form == Form::list ? "" : find_elsewhere(*shape.element, name, path);
  if (shape.find(name) != nullptr) return join_path(path, name);
  for (const Shape* alternative : shape.alternatives)
    if (std::string found = find_elsewhere(*alternative, name, path); !found.empty()) return found;
  if (shape.choice)
    if (std::string found = find_elsewhere(*shape.choice->shape, name, path); !found.empty()) return found;
  for (const Key& key : shape.keys)
    if (std::string found = find_elsewhere(*key.shape, name, join_path(path, key.name)); !found.empty()) return found;
  return "";
}

/// The alternative that a mapping's `kind` names.
struct Chosen {
  const Shape* alternative = nullptr;  // none without kinds, or when the kind is wrong
  std::string_view kind;
  void* value = nullptr;
};

class Reader {
 public:
  Reader(const Shape& root, Problems& problems) : root_(root), problems_(problems) {}

  void read(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value) {
    if (problems_.full()) return;
    switch (shape.form) {
      case Form::boolean:
      case Form::integer:
      case Form::number:
      case Form::text:
      case Form::word:
        return read_scalar(shape, limits, node, path, value, problems_);
      case Form::list:
        return read_list(shape, limits, node, path, value);
      case Form::optional:
        return read_optional(shape, limits, node, path, value);
      case Form::auto_or:
        return read_auto_or(shape, limits, node, path, value);
      case Form::structure:
      case Form::one_of:
        return read_mapping(shape, limits, node, path, value);
    }
  }

 private:
  void read_list(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value) {
    if (is_single_item(shape, node)) {
      shape.clear(value);
      Limits of_item = limits;
      of_item.min_items = 0;
      of_item.required = true;
      return read(*shape.element, of_item, node, path, shape.set(value, 0));
    }
    if (node.kind != NodeKind::sequence) return add_wrong(node, path, expected_text(shape, limits), "", problems_);
    if (node.items.size() < limits.min_items)
      return problems_.add(node.origin, path,
                           "expected at least " + std::to_string(limits.min_items) + " item, got an empty list");
    Limits of_items = limits;
    of_items.min_items = 0;
    of_items.required = true;  // an item says its kind
    shape.clear(value);
    for (std::size_t i = 0; i < node.items.size(); ++i)
      read(*shape.element, of_items, node.items[i], join_path(path, i), shape.set(value, i));
  }

  void read_optional(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value) {
    if (node.kind == NodeKind::null) return shape.clear(value);
    read(*shape.element, limits, node, path, shape.set(value, 0));
  }

  void read_auto_or(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value) {
    if (node.is_word("auto")) return shape.clear(value);
    Problems mistakes;
    Reader(root_, mistakes).read(*shape.element, limits, node, path, shape.set(value, 0));
    if (mistakes.empty()) return;
    shape.clear(value);
    add_wrong(node, path, expected_text(shape, limits), did_you_mean(node.text, std::vector<std::string>{"auto"}),
              problems_);
  }

  void read_mapping(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value) {
    if (is_short_form(shape, node)) return read_mapping(shape, limits, long_form(shape, node), path, value);
    if (node.kind != NodeKind::mapping)
      return add_wrong(node, path, expected_text(shape, limits),
                       node.kind == NodeKind::null ? "leave the key out for the defaults" : "", problems_);
    const Chosen chosen = choose(shape, limits, node, path, value);
    for (const Node::Entry& entry : node.entries) {
      if (problems_.full()) return;
      read_entry(shape, chosen, entry, path, value);
    }
    if (shape.form == Form::structure) report_missing(shape, node, path);
    if (chosen.alternative != nullptr) report_missing(*chosen.alternative, node, path);
  }

  Chosen choose(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value) {
    const Shape* kinds = shape.kinds();
    if (kinds == nullptr) return {};
    void* one_of = shape.choice ? shape.choice->in(value) : value;
    std::size_t index = kinds->count(one_of);
    if (const Node* kind = node.find("kind")) {
      const auto found = find_word(*kinds, *kind, join_path(path, "kind"), problems_);
      if (!found) return {};
      if (index != *found) kinds->set(one_of, *found);
      index = *found;
    } else if (const Limits& own = shape.choice ? shape.choice->limits : limits;
               own.required && (own.unless.empty() || node.find(own.unless) == nullptr)) {
      const std::vector<std::string> words(kinds->words.begin(), kinds->words.end());
      const std::string instead = own.unless.empty() ? "" : "; " + std::string(own.unless) + " may take its place";
      problems_.add(node.origin, join_path(path, "kind"),
                    "required key is missing; expected " + core::list_words(words, "or") + instead);
      return {};
    }
    return {kinds->alternatives[index], kinds->words[index], const_cast<void*>(kinds->get(one_of, 0))};
  }

  void read_entry(const Shape& shape, const Chosen& chosen, const Node::Entry& entry, const std::string& path,
                  void* value) {
    const std::string key_path = join_path(path, entry.key);
    const Shape* kinds = shape.kinds();
    if (kinds != nullptr && entry.key == "kind") return;
    if (const Key* key = shape.find(entry.key))
      return read(*key->shape, key->limits, entry.value, key_path, key->in(value));
    if (const Key* key = chosen.alternative != nullptr ? chosen.alternative->find(entry.key) : nullptr)
      return read(*key->shape, key->limits, entry.value, key_path, key->in(chosen.value));
    if (const std::vector<std::string> others = kinds_with(kinds, entry.key); !others.empty()) {
      if (chosen.alternative == nullptr) return;  // nobody knows which kind was meant
      return problems_.add(entry.key_origin, key_path,
                           "'" + entry.key + "' belongs to kind" + (others.size() > 1 ? "s " : " ") +
                               core::list_words(others) + "; this is " + std::string(chosen.kind));
    }
    problems_.add(entry.key_origin, key_path, unknown_key(shape, chosen, entry.key));
  }

  static std::vector<std::string> kinds_with(const Shape* kinds, std::string_view key) {
    std::vector<std::string> with;
    for (std::size_t i = 0; kinds != nullptr && i < kinds->words.size(); ++i)
      if (kinds->alternatives[i]->find(key) != nullptr) with.emplace_back(kinds->words[i]);
    return with;
  }

  std::string unknown_key(const Shape& shape, const Chosen& chosen, const std::string& name) const {
    std::vector<std::string> known;
    if (shape.kinds() != nullptr) known.emplace_back("kind");
    const auto add_keys = [&](const Shape& of) {
      for (const Key& key : of.keys) known.emplace_back(key.name);
    };
    if (chosen.alternative != nullptr)
      add_keys(*chosen.alternative);
    else if (const Shape* kinds = shape.kinds())
      for (const Shape* alternative : kinds->alternatives) add_keys(*alternative);
    add_keys(shape);
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
      return "unknown key; a comma ends an entry here, and decimals follow a point";
    if (const std::string meant = did_you_mean(name, known); !meant.empty()) return "unknown key; " + meant;
    if (const std::string elsewhere = find_elsewhere(root_, name, ""); !elsewhere.empty())
      return "unknown key; did you mean '" + elsewhere + "'?";
    return "unknown key; known here: " + core::list_words(known);
  }

  void report_missing(const Shape& shape, const Node& node, const std::string& path) {
    for (const Key& key : shape.keys)
      if (key.limits.required && node.find(key.name) == nullptr)
        problems_.add(node.origin, join_path(path, key.name), "required key is missing: " + std::string(key.help));
  }

  const Shape& root_;
  Problems& problems_;
};

}  // namespace

void read_into(const Shape& shape, const Node& node, void* value, Problems& problems, const std::string& path) {
  Node root = node;
  // What the whole file lacks is missing from its first line on.
  if (path.empty() && root.origin.kind == OriginKind::file) root.origin.line = root.origin.column = 1;
  Reader(shape, problems).read(shape, {}, root, path, value);
}

}  // namespace trainctl::config

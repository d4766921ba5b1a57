#include "config/keys.h"

#include <algorithm>

namespace trainctl::config {
namespace {

std::vector<std::string_view> words_of(const Shape& shape) {
  std::vector<std::string_view> words = shape.form == Form::list ? std::vector<std::string_view>{}
                                        : shape.element          ? words_of(*shape.element)
                                                                 : shape.words;
  if (shape.form == Form::boolean) words = {"true", "false"};
  if (shape.form == Form::auto_or) words.push_back("auto");
  if (shape.form == Form::optional) words.push_back("null");
  return words;
}

bool is_mapping(const Shape& shape) {
  if (shape.element != nullptr) return shape.form != Form::list && is_mapping(*shape.element);
  return shape.form == Form::structure || shape.form == Form::one_of;
}

/// Collects keys, each path once.
class Lister {
 public:
  void add(const std::string& path, std::string_view help, const std::vector<std::string_view>& words) {
    const auto known = std::ranges::find(keys_, path, &KeyDescription::path);
    if (known == keys_.end())
      keys_.push_back({path, help, words});
    else
      for (const std::string_view word : words)
        if (std::ranges::find(known->words, word) == known->words.end()) known->words.push_back(word);
  }

  /// Adds the keys of the mapping at `path`.
  void add_mapping(const Shape& shape, const Node* stated, const std::string& path) {
    if (shape.element != nullptr) return add_mapping(*shape.element, stated, path);
    if (shape.form == Form::one_of) add_kinds(shape, "Kind.", stated, path);
    if (shape.form != Form::structure) return;
    for (std::size_t i = 0; i <= shape.keys.size(); ++i) {
      if (shape.choice && i == shape.choice_position) add_kinds(*shape.choice->shape, shape.choice->help, stated, path);
      if (i < shape.keys.size()) add_key(shape.keys[i], stated, path);
    }
  }

  std::vector<KeyDescription> take() { return std::move(keys_); }

 private:
  void add_key(const Key& key, const Node* stated, const std::string& path) {
    const std::string own = path + std::string(key.name);
    if (is_mapping(*key.shape))
      add_mapping(*key.shape, stated == nullptr ? nullptr : stated->find(key.name), own + ".");
    else
      add(own, key.help, words_of(*key.shape));
  }

  void add_kinds(const Shape& kinds, std::string_view help, const Node* stated, const std::string& path) {
    add(path + "kind", help, kinds.words);
    const Node* const chosen = stated == nullptr ? nullptr : stated->find("kind");
    const auto kind = chosen == nullptr ? kinds.words.end() : std::ranges::find(kinds.words, chosen->text);
    for (std::size_t i = 0; i < kinds.words.size(); ++i)
      if (kind == kinds.words.end() || kinds.words.begin() + static_cast<std::ptrdiff_t>(i) == kind)
        add_mapping(*kinds.alternatives[i], stated, path);
  }

  std::vector<KeyDescription> keys_;
};

}  // namespace

std::vector<KeyDescription> list_keys(const Shape& shape, const Node* stated) {
  Lister lister;
  lister.add_mapping(shape, stated, "");
  return lister.take();
}

}  // namespace trainctl::config

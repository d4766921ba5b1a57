#include "config/renamed.h"

#include <algorithm>

#include "config/problems.h"

namespace trainctl::config {
namespace {

class Renaming {
 public:
  Renaming(std::span<const Renamed> list, std::string_view phrase, Problems& problems)
      : list_(list), phrase_(phrase), problems_(problems) {}

  void mapping(Node& node, std::string_view section, const std::string& path) const {
    std::vector<std::string_view> moved;
    for (Node::Entry& entry : node.entries) {
      const std::string key_path = join_path(path, entry.key);
      if (const Renamed* renamed = find(section, entry.key); renamed != nullptr && !has(node, renamed->unless_beside)) {
        problems_.add(entry.key_origin, key_path, phrase_ + " '" + std::string(renamed->now) + "'");
        entry.key = renamed->now;
        if (renamed->now.find('.') != std::string_view::npos) moved.push_back(renamed->now);
      }
      const std::string value = entry.key + ": " + entry.value.text;
      if (const Renamed* renamed = entry.value.kind == NodeKind::scalar ? find(section, value) : nullptr) {
        const std::string_view now = renamed->now.substr(entry.key.size() + 2);
        problems_.add(entry.value.origin, key_path,
                      "'" + entry.value.text + "' " + phrase_ + " '" + std::string(now) + "'");
        entry.value.text = now;
      }
      below(entry.value, path.empty() ? std::string_view(entry.key) : section, key_path);
    }
    std::erase_if(node.entries, [&](const Node::Entry& entry) { return std::ranges::count(moved, entry.key) > 0; });
  }

 private:
  void below(Node& node, std::string_view section, const std::string& path) const {
    mapping(node, section, path);
    for (std::size_t i = 0; i < node.items.size(); ++i) below(node.items[i], section, join_path(path, i));
  }

  static bool has(const Node& node, std::string_view key) {
    return std::ranges::any_of(node.entries, [&](const Node::Entry& entry) { return entry.key == key; });
  }

  const Renamed* find(std::string_view section, std::string_view name) const {
    for (const Renamed& renamed : list_)
      if (renamed.section == section && renamed.was == name) return &renamed;
    return nullptr;
  }

  std::span<const Renamed> list_;
  std::string phrase_;
  Problems& problems_;
};

}  // namespace

void refuse_renamed(Node& root, std::span<const Renamed> list, std::string_view phrase, Problems& problems) {
  Renaming(list, phrase, problems).mapping(root, "", "");
}

}  // namespace trainctl::config

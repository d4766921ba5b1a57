#include "config/flatten.h"

#include "config/emit.h"
#include "config/problems.h"

namespace trainctl::config {
namespace {

void flatten_into(const Node& node, const std::string& path, std::map<std::string, std::string>& flat) {
  if (is_inline(node)) {
    flat[path] = emit_inline(node);
    return;
  }
  for (const Node::Entry& entry : node.entries) flatten_into(entry.value, join_path(path, entry.key), flat);
  for (std::size_t i = 0; i < node.items.size(); ++i) flatten_into(node.items[i], join_path(path, i), flat);
}

void add_origins(const Node& node, const std::string& path, std::map<std::string, std::string>& origins) {
  if (is_inline(node)) {
    const Origin& origin =
        node.origin.kind == OriginKind::default_value && !node.items.empty() ? node.items.front().origin : node.origin;
    if (origin.kind != OriginKind::default_value) origins[path] = origin.text();
    return;
  }
  for (const Node::Entry& entry : node.entries) add_origins(entry.value, join_path(path, entry.key), origins);
  for (std::size_t i = 0; i < node.items.size(); ++i) add_origins(node.items[i], join_path(path, i), origins);
}

}  // namespace

std::map<std::string, std::string> flatten(const Node& root) {
  std::map<std::string, std::string> flat;
  flatten_into(root, "", flat);
  return flat;
}

std::map<std::string, std::string> origins_of(const Node& root) {
  std::map<std::string, std::string> origins;
  add_origins(root, "", origins);
  return origins;
}

std::vector<Difference> diff(const std::map<std::string, std::string>& was,
                             const std::map<std::string, std::string>& now) {
  std::vector<Difference> differences;
  auto a = was.begin();
  auto b = now.begin();
  while (a != was.end() || b != now.end()) {
    if (b == now.end() || (a != was.end() && a->first < b->first)) {
      differences.push_back({a->first, a->second, ""});
      ++a;
    } else if (a == was.end() || b->first < a->first) {
      differences.push_back({b->first, "", b->second});
      ++b;
    } else {
      if (a->second != b->second) differences.push_back({a->first, a->second, b->second});
      ++a, ++b;
    }
  }
  return differences;
}

}  // namespace trainctl::config

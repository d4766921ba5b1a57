#include "config/origin_of.h"

namespace trainctl::config {

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

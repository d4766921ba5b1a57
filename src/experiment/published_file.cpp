#include "experiment/published_file.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::experiment {
namespace {

using Json = nlohmann::json;

config::Node node_of(const Json& value, const config::Origin& origin) {
  if (value.is_array() || value.is_object()) {
    config::Node node = value.is_array() ? config::Node::sequence(origin) : config::Node::mapping(origin);
    for (const auto& [key, item] : value.items()) {
      if (value.is_array())
        node.items.push_back(node_of(item, origin));
      else
        node.add(key, origin, node_of(item, origin));
    }
    return node;
  }
  if (value.is_null()) return config::Node{.origin = origin};
  const bool is_text = value.is_string();
  return config::Node::scalar(is_text ? value.get<std::string>() : value.dump(),
                              is_text ? config::ScalarStyle::quoted : config::ScalarStyle::plain, origin);
}

}  // namespace

config::Origin PublishedFile::origin_of(const std::string& key) const {
  const std::size_t place = text.find('"' + key + '"');
  const std::size_t end = place == std::string::npos ? 0 : place;
  const std::size_t line_begin = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t begin = line_begin == std::string::npos ? 0 : line_begin + 1;
  return {.kind = config::OriginKind::file,
          .source = path,
          .line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n')),
          .column = 1 + static_cast<int>(end - begin)};
}

std::string PublishedFile::json_of(const std::string& key) const {
  const auto value = json.find(key);
  return value == json.end() ? "" : value->dump().substr(0, 100);
}

PublishedFile open_published(const std::filesystem::path& path) {
  constexpr std::uint64_t kLargest = 16 << 20;
  PublishedFile file{.path = path.string(), .text = core::read_file(path, kLargest), .json = {}};
  file.json = core::parse_json_or_discard(file.text);
  if (!file.json.is_object()) throw core::Error(path.string() + " is no JSON object");
  return file;
}

void adopt(config::Node& section, const PublishedFile& file, const std::vector<PublishedKey>& keys) {
  for (const PublishedKey& key : keys)
    if (section.find(key.ours) == nullptr) {
      const config::Origin origin = file.origin_of(key.theirs);
      section.add(key.ours, origin, node_of(key.value, origin));
    }
}

}  // namespace trainctl::experiment

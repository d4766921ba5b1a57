#include "task/spans.h"

namespace trainctl::task {

std::optional<std::vector<Tag>> as_tags(const std::vector<std::string>& class_names) {
  if (class_names.empty()) return std::nullopt;
  std::vector<Tag> tags;
  for (const std::string& name : class_names) {
    if (name == "O")
      tags.push_back({});
    else if (name.starts_with("B-"))
      tags.push_back({Tag::Kind::begin, name.substr(2)});
    else if (name.starts_with("I-"))
      tags.push_back({Tag::Kind::inside, name.substr(2)});
    else
      return std::nullopt;
  }
  return tags;
}

std::vector<TokenSpan> spans_of(std::span<const std::int64_t> classes, const std::vector<Tag>& tags) {
  std::vector<TokenSpan> spans;
  bool open = false;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const Tag& tag = tags[static_cast<std::size_t>(classes[i])];
    if (tag.kind == Tag::Kind::outside) {
      open = false;
      continue;
    }
    const bool continues = open && tag.kind == Tag::Kind::inside && spans.back().type == tag.type;
    if (!continues) spans.push_back({.begin = i, .end = i, .type = tag.type});
    spans.back().end = i + 1;
    open = true;
  }
  return spans;
}

}  // namespace trainctl::task

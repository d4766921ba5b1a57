#include "config/overlay.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "config/parse.h"
#include "config/read_scalar.h"
#include "config/short_form.h"
#include "core/error.h"
#include "core/file.h"

namespace trainctl::config {
namespace {

bool kinds_differ(const Node& base, const Node& over) {
  const Node* was = base.find("kind");
  const Node* now = over.find("kind");
  return was != nullptr && now != nullptr && was->text != now->text;
}

/// Takes `base: other.yaml` out of a file's mapping.
std::optional<Node> take_base(Node& root) {
  const auto entry =
      std::find_if(root.entries.begin(), root.entries.end(), [](const Node::Entry& e) { return e.key == "base"; });
  if (entry == root.entries.end()) return std::nullopt;
  Node base = std::move(entry->value);
  root.entries.erase(entry);
  return base;
}

/// Returns the same path for a file, also if a symbolic link leads to it.
std::filesystem::path identity(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  return error ? path.lexically_normal() : canonical;
}

/// Returns the reason why this base can't be used, or "".
std::string refuse_base(const Node& base, const std::filesystem::path& path,
                        std::span<const std::filesystem::path> seen) {
  if (base.kind != NodeKind::scalar || base.text.empty()) return "expected the path of another experiment file";
  if (std::find(seen.begin(), seen.end(), identity(path)) != seen.end())
    return "these files name each other as base, in a circle";
  if (seen.size() > kMaxBases) return "over " + std::to_string(kMaxBases) + " files, each the base of the one before";
  try {
    const core::RegularFile is_there(path);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

struct Step {
  std::string key;
  std::optional<std::size_t> index;
};

std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return index;
}

/// Splits "a.b[0].c" or "a.b.0.c" into steps; none if the text isn't a path.
std::optional<std::vector<Step>> parse_path(std::string_view path) {
  std::vector<Step> steps;
  while (true) {
    const std::size_t dot = path.find('.');
    std::string_view part = path.substr(0, dot);
    const std::size_t bracket = std::min(part.find('['), part.size());
    std::string_view indices = part.substr(bracket);
    part = part.substr(0, bracket);
    if (part.empty()) return std::nullopt;
    steps.push_back({std::string(part), steps.empty() ? std::nullopt : parse_index(part)});
    while (!indices.empty()) {
      const std::size_t close = indices.find(']');
      if (indices.front() != '[' || close == std::string_view::npos) return std::nullopt;
      const auto index = parse_index(indices.substr(1, close - 1));
      if (!index) return std::nullopt;
      steps.push_back({std::string(indices.substr(1, close - 1)), index});
      indices.remove_prefix(close + 1);
    }
    if (dot == std::string_view::npos) break;
    path.remove_prefix(dot + 1);
  }
  if (steps.size() > static_cast<std::size_t>(kMaxDepth)) return std::nullopt;
  return steps;
}

/// A walk to the value that an assignment replaces, which makes missing mappings; null after a problem.
class Walk {
 public:
  Walk(const Origin& origin, Problems& problems) : origin_(origin), problems_(problems) {}

  Node* to(Node& root, std::span<const Step> steps) {
    Node* node = &root;
    for (const Step& step : steps) {
      node = node->kind == NodeKind::sequence ? item(*node, step) : entry(*node, step);
      if (node == nullptr) return nullptr;
    }
    return node;
  }

 private:
  Node* item(Node& list, const Step& step) {
    const std::string name = path_;
    path_ = join_path(path_, step.key);
    if (!step.index) return fail(name + " is a list; '" + step.key + "' is not an index");
    path_ = join_path(name, *step.index);
    if (*step.index >= list.items.size())
      return fail(name + " has " + std::to_string(list.items.size()) + " items, counted from 0");
    return &list.items[*step.index];
  }

  Node* entry(Node& node, const Step& step) {
    const std::string name = path_;
    path_ = join_path(path_, step.key);
    if (node.kind == NodeKind::null) node = Node::mapping(origin_);
    if (node.kind != NodeKind::mapping) return fail(name + " has no keys; it is '" + shortened(node.text) + "'");
    if (Node* found = node.find(step.key)) return found;
    Node nothing;
    nothing.origin = origin_;
    return &node.add(step.key, origin_, std::move(nothing));
  }

  Node* fail(std::string message) {
    problems_.add(origin_, path_, std::move(message));
    return nullptr;
  }

  const Origin& origin_;
  Problems& problems_;
  std::string path_;
};

void set_origins(Node& node, const Origin& origin) {
  node.origin = origin;
  for (Node& item : node.items) set_origins(item, origin);
  for (Node::Entry& entry : node.entries) entry.key_origin = origin, set_origins(entry.value, origin);
}

}  // namespace

void overlay(Node& base, Node over) {
  if (base.kind != NodeKind::mapping || over.kind != NodeKind::mapping || kinds_differ(base, over)) {
    base = std::move(over);
    return;
  }
  base.origin = over.origin;
  for (Node::Entry& entry : over.entries) {
    if (Node* under = base.find(entry.key)) {
      overlay(*under, std::move(entry.value));
      const auto kept = std::find_if(base.entries.begin(), base.entries.end(),
                                     [&](const Node::Entry& e) { return e.key == entry.key; });
      kept->key_origin = entry.key_origin;
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
}

std::optional<Node> load_with_bases(const Shape& shape, const std::filesystem::path& path, Problems& problems) {
  std::vector<Node> files;  // the file itself, its base, the base's base …
  std::vector<std::filesystem::path> seen;
  for (std::filesystem::path next = path; !next.empty();) {
    std::optional<Node> root = parse_file(next, problems);
    if (!root) return std::nullopt;
    seen.push_back(identity(next));
    const std::optional<Node> base = take_base(*root);
    files.push_back(std::move(*root));
    if (!base) break;
    const std::filesystem::path base_path = next.parent_path() / base->text;
    if (std::string reason = refuse_base(*base, base_path, seen); !reason.empty()) {
      problems.add(base->origin, "base", std::move(reason));
      return std::nullopt;
    }
    next = base_path;
  }
  Node merged = std::move(files.back());
  expand_short_forms(shape, merged);
  for (files.pop_back(); !files.empty(); files.pop_back()) {
    expand_short_forms(shape, files.back(), &merged);
    overlay(merged, std::move(files.back()));
  }
  return merged;
}

void apply_set(const Shape& shape, Node& root, const std::string& assignment, Problems& problems) {
  const Origin origin{OriginKind::command_line, "--set " + shortened(assignment), 0, 0};
  const std::size_t equals = assignment.find('=');
  const auto steps = parse_path(std::string_view(assignment).substr(0, equals));
  if (equals == std::string::npos || !steps)
    return problems.add(origin, "", "expected key=value with a path of keys, as in --set optimizer.lr=1e-3");
  if (steps->front().key == "base") return problems.add(origin, "base", "a base is named in the file, not by --set");
  std::optional<Node> value = parse(std::string_view(assignment).substr(equals + 1), origin, problems);
  if (!value) return;
  expand_short_forms(shape, root);  // `optimizer: sgd` has a place for optimizer.lr
  if (Node* target = Walk(origin, problems).to(root, *steps)) {
    set_origins(*value, origin);
    *target = std::move(*value);
    expand_short_forms(shape, root);
  }
}

}  // namespace trainctl::config

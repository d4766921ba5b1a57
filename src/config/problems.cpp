#include "config/problems.h"

#include <algorithm>
#include <tuple>

namespace trainctl::config {
namespace {

/// Returns whether `inner` is `outer` or lies inside it.
bool lies_within(std::string_view inner, std::string_view outer) {
  if (!inner.starts_with(outer)) return false;
  return inner.size() == outer.size() || outer.empty() || inner[outer.size()] == '.' || inner[outer.size()] == '[';
}

}  // namespace

void Problems::add(const Origin& origin, std::string path, std::string message) {
  if (full())
    ++num_dropped_;
  else
    found_.push_back({origin, std::move(path), std::move(message)});
}

bool Problems::touches(std::string_view path) const {
  return std::any_of(found_.begin(), found_.end(), [&](const Found& found) {
    return !found.path.empty() && (lies_within(path, found.path) || lies_within(found.path, path));
  });
}

std::vector<core::Problem> Problems::sorted() const {
  std::vector<std::string_view> sources;
  for (const Found& found : found_)
    if (std::find(sources.begin(), sources.end(), found.origin.source) == sources.end())
      sources.push_back(found.origin.source);
  const auto order = [&](const Found* found) {
    const auto source = std::find(sources.begin(), sources.end(), found->origin.source) - sources.begin();
    return std::tuple(found->origin.kind, source, found->origin.line, found->origin.column);
  };
  std::vector<const Found*> ordered;
  for (const Found& found : found_) ordered.push_back(&found);
  std::stable_sort(ordered.begin(), ordered.end(), [&](auto* a, auto* b) { return order(a) < order(b); });
  std::vector<core::Problem> problems;
  for (const Found* found : ordered) problems.push_back({found->origin.text(), found->path, found->message});
  if (num_dropped_ > 0)
    problems.push_back({problems.back().where, "", "and " + std::to_string(num_dropped_) + " more problems"});
  return problems;
}

void Problems::throw_if_any() const {
  if (!empty()) throw core::ConfigError(sorted());
}

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + "." + std::string(key);
}

std::string join_path(std::string_view path, std::size_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

}  // namespace trainctl::config

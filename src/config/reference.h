// A config type as a Markdown reference: one section of tables for each key of the root.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "config/shape.h"

namespace trainctl::config {

/// Examples in YAML by the name of the root's section that they show. The one without a name is the file below them.
using SectionExamples = std::map<std::string_view, std::string_view>;

/// Returns the reference: an index, the root's keys, and each mapping and kind once, with links from every other place.
std::string markdown_reference(const Shape& root, const std::string& title, const SectionExamples& examples);

/// Returns a section for each mapping with a `kind`: its kinds, with links to their keys in the page `reference`.
std::string markdown_kinds(const Shape& root, const std::string& reference);

}  // namespace trainctl::config

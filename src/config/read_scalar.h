// Reading the leaves of a tree, and saying what was wrong with them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/read.h"

namespace trainctl::config {

/// Reads a boolean, integer, number, text or word.
void read_scalar(const Shape& shape, const Limits& limits, const Node& node, const std::string& path, void* value,
                 Problems& problems);

/// The number of the word that a node says; a problem if it says none of them.
std::optional<std::size_t> find_word(const Shape& shape, const Node& node, const std::string& path, Problems& problems);

/// "expected a positive number, got -1; hint".
void add_wrong(const Node& node, const std::string& path, const std::string& expected, const std::string& hint,
               Problems& problems);

/// "did you mean 'momentum'?", or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

/// At most some 60 bytes of a text.
std::string shortened(const std::string& text);

}  // namespace trainctl::config

// YAML text -> Node. Refuses, quickly and by name, whatever could make a small file mean a huge or ambiguous one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "config/node.h"
#include "config/problems.h"

namespace trainctl::config {

inline constexpr std::uint64_t kMaxFileBytes = 1 << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kMaxNodes = 100'000;      // aliases expanded
inline constexpr std::size_t kMaxTextBytes = 8 << 20;  // aliases expanded

/// The only document of `text`, whose nodes get `origin`'s kind and source. Nothing if it can't be read as YAML; a
/// duplicate key is a problem too, of which the first value is kept.
std::optional<Node> parse(std::string_view text, const Origin& origin, Problems& problems);

/// The file's only document, which must be a mapping. `name` stands for the file in messages.
std::optional<Node> parse_file(const std::filesystem::path& path, Problems& problems);

}  // namespace trainctl::config

// What bytes a YAML text may be made of.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::config {

/// The first byte that can't stand in a YAML text.
struct BadByte {
  std::size_t offset;
  int line;    // 1-based
  int column;  // 1-based, in characters
  std::string reason;
};

/// Turns columns in bytes into columns in characters, which is what an editor shows.
class CharacterColumns {
 public:
  /// `text` must outlive this.
  explicit CharacterColumns(std::string_view text);

  /// All counted from 0. Far into an overlong line it stays with bytes.
  int of(int line, int byte_column) const;

 private:
  std::string_view text_;
  std::vector<std::size_t> line_starts_;  // empty when every character is one byte
};

/// Returns whether a character is none of YAML's, or ends a line in YAML 1.1 alone: C1 controls, U+2028, U+2029, U+FFFE
/// and U+FFFF.
bool is_no_text(std::string_view character);

/// Finds bytes that aren't UTF-8, and control characters.
std::optional<BadByte> find_bad_byte(std::string_view text);

}  // namespace trainctl::config

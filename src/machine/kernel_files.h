// Reading the small text files by which the kernel describes the machine (/proc, /sys).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace trainctl::machine {

/// Returns the text of a file, or "" if the process cannot read it.
std::string text_or_empty(const std::filesystem::path& path);

/// Returns the value of the first line "key : value" of `text`, without blanks, or "" if no line has the key.
std::string value_of_key(std::string_view text, std::string_view key);

/// Returns the number that the first line of `text` begins with; nothing for another word, for instance "max".
std::optional<double> leading_number(const std::string& text);

}  // namespace trainctl::machine

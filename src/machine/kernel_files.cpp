#include "machine/kernel_files.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "core/text.h"

namespace trainctl::machine {

std::string text_or_empty(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string value_of_key(std::string_view text, std::string_view key) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || core::trimmed(std::string_view(line).substr(0, colon)) != key) continue;
    return std::string(core::trimmed(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::optional<double> leading_number(const std::string& text) {
  std::istringstream words(text);
  double number = 0;
  if (words >> number) return number;
  return std::nullopt;
}

}  // namespace trainctl::machine

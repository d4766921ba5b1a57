#include "dataset/files/file_list.h"

#include <glob.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "dataset/files/directory_walk.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000'000;

/// Returns the place of the brace that closes the one at `open`; npos if there is none. Adds the commas at that depth
/// to `commas`.
std::size_t closing_brace(const std::string& text, std::size_t open, std::vector<std::size_t>& commas) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    } else if (text[i] == ',' && depth == 1) {
      commas.push_back(i);
    }
  }
  return std::string::npos;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// Expands "000..099" to numbers of the same width; empty if the text isn't a range.
std::vector<std::string> range_of(const std::string& inside, const std::string& pattern) {
  const std::size_t dots = inside.find("..");
  if (dots == std::string::npos) return {};
  const std::string from = inside.substr(0, dots);
  const std::string to = inside.substr(dots + 2);
  const std::optional<std::int64_t> first = number_of(from);
  const std::optional<std::int64_t> last = number_of(to);
  if (!first || !last) return {};
  if (*last < *first || static_cast<std::size_t>(*last - *first) >= kMostFiles)
    throw core::Error(pattern + ": the range {" + inside + "} should rise, and name at most " +
                      core::format_count(static_cast<long long>(kMostFiles)) + " files");
  const std::size_t width = from.size() > 1 && from[0] == '0' ? from.size() : 0;
  std::vector<std::string> names;
  for (std::int64_t i = *first; i <= *last; ++i) {
    std::string name = std::to_string(i);
    if (name.size() < width) name.insert(0, width - name.size(), '0');
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> alternatives_of(const std::string& pattern, std::size_t open, std::size_t close,
                                         const std::vector<std::size_t>& commas) {
  if (commas.empty()) return range_of(pattern.substr(open + 1, close - open - 1), pattern);
  std::vector<std::string> parts;
  std::size_t begin = open + 1;
  for (const std::size_t comma : commas) {
    parts.push_back(pattern.substr(begin, comma - begin));
    begin = comma + 1;
  }
  parts.push_back(pattern.substr(begin, close - begin));
  return parts;
}

std::vector<fs::path> files_of_directory(const fs::path& directory, const FileEndings& endings, std::string_view key) {
  std::vector<fs::path> files = files_below(directory, endings.endings);
  if (files.empty())
    throw core::Error(std::string(key) + ": the directory " + directory.string() + " has no files" +
                      (endings.endings.empty() ? "" : " that end in " + core::list_words(endings.endings, "or")));
  return files;
}

std::vector<fs::path> matches_of(const std::string& pattern, std::string_view key) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<fs::path> files;
  for (std::size_t i = 0; result == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::erase_if(files, [](const fs::path& file) {
    std::error_code ignored;
    return fs::is_directory(file, ignored);
  });
  if (files.empty()) throw core::Error(std::string(key) + ": no file matches " + pattern).hint("is the path right?");
  return files;
}

bool is_glob(const std::string& name) {
  return name.find_first_of("*?[") != std::string::npos;
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::string plain;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size() && (pattern[i + 1] == '{' || pattern[i + 1] == '}')) {
      plain += pattern[++i];
      continue;
    }
    std::vector<std::size_t> commas;
    const std::size_t close = pattern[i] == '{' ? closing_brace(pattern, i, commas) : std::string::npos;
    const std::vector<std::string> parts =
        close == std::string::npos ? std::vector<std::string>() : alternatives_of(pattern, i, close, commas);
    if (parts.empty()) {
      plain += pattern[i];
      continue;
    }
    std::vector<std::string> all;
    const std::vector<std::string> ends = expand_braces(pattern.substr(close + 1));
    for (const std::string& part : parts)
      for (const std::string& middle : expand_braces(part))
        for (const std::string& end : ends) {
          if (all.size() >= kMostFiles) throw core::Error(pattern + ": these braces name too many files");
          all.push_back(plain + middle + end);
        }
    return all;
  }
  return {plain};
}

std::vector<fs::path> expand_files(std::span<const std::string> patterns, const FileEndings& endings,
                                   std::string_view key) {
  std::vector<fs::path> files;
  for (const std::string& pattern : patterns) {
    std::error_code ignored;
    // What is there under this very name is meant, whatever characters it has.
    const bool exists = fs::exists(pattern, ignored);
    for (const std::string& name : exists ? std::vector<std::string>{pattern} : expand_braces(pattern)) {
      std::vector<fs::path> more;
      if (fs::is_directory(name, ignored))
        more = files_of_directory(name, endings, key);
      else if (fs::exists(name, ignored))
        more = {name};
      else if (is_glob(name))
        more = matches_of(name, key);
      else
        throw core::Error(std::string(key) + ": there is no file " + name +
                          (name == pattern ? "" : ", which " + pattern + " names"));
      files.insert(files.end(), more.begin(), more.end());
    }
  }
  std::set<std::string> seen;
  for (const fs::path& file : files)
    if (!seen.insert(file.lexically_normal().string()).second)
      throw core::Error(std::string(key) + ": " + file.string() + " is named twice");
  return files;
}

}  // namespace trainctl::dataset

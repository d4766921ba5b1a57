#include "run_report/run_files.h"

#include <set>
#include <sstream>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::run_report {
namespace {

using nlohmann::ordered_json;

/// Returns the file's bytes; "" if there is no such file that can be read.
std::string read_if_there(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(path, unreadable)) return "";
  try {
    return core::read_file(path, max_bytes);
  } catch (const core::Error&) {  // the page shows what else there is
    return "";
  }
}

}  // namespace

ordered_json read_object(const std::filesystem::path& path, std::size_t max_bytes) {
  ordered_json json = core::parse_json_or_discard<ordered_json>(read_if_there(path, max_bytes));
  return json.is_object() ? json : ordered_json();
}

ordered_json member(const ordered_json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found == object.end() ? ordered_json() : *found;
}

ordered_json warnings_of(const std::filesystem::path& run_directory, std::size_t most) {
  ordered_json warnings = ordered_json::array();
  std::set<std::string> known;
  std::istringstream lines(read_if_there(run_directory / "notices.jsonl", std::size_t{16} << 20));
  for (std::string line; warnings.size() < most && std::getline(lines, line);) {
    const ordered_json notice = core::parse_json_or_discard<ordered_json>(line);
    const ordered_json text = member(notice, "text");
    if (member(notice, "level") != "warning" || !text.is_string()) continue;
    if (known.insert(text.get<std::string>()).second)
      warnings.push_back({{"step", member(notice, "step")}, {"text", text}});
  }
  return warnings;
}

}  // namespace trainctl::run_report

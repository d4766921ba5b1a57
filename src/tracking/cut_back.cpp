#include "tracking/cut_back.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/file.h"
#include "core/json.h"

namespace trainctl::tracking {
namespace {

/// Whether the line is complete and from a step that the run will not repeat.
bool is_kept(std::string_view line, std::int64_t first_step) {
  const nlohmann::json record = core::parse_json_or_discard(line);
  if (!record.is_object()) return false;
  const auto step = record.find("step");
  return step == record.end() || !step->is_number_integer() || step->get<std::int64_t>() <= first_step;
}

}  // namespace

void cut_back(const std::filesystem::path& path, std::int64_t first_step) {
  if (!std::filesystem::exists(path)) return;
  const std::string bytes = core::read_file(path);
  std::string kept;
  for (std::size_t begin = 0, end = 0; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(bytes).substr(begin, end - begin);
    if (is_kept(line, first_step)) kept.append(line).push_back('\n');
  }
  if (kept.size() != bytes.size()) core::write_file_atomically(path, kept);
}

}  // namespace trainctl::tracking

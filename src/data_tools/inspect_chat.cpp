// Conversations in JSON lines, by their first rows.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "data_tools/inspect_rows.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::data_tools {
namespace {

constexpr std::int64_t kMostConversations = 20'000;

/// Returns the number of turns; 0 if the row is no conversation.
std::int64_t turns_in(std::string_view line) {
  const auto row = core::parse_json_or_discard(line);
  if (!row.is_object()) return 0;
  for (const char* member : {"messages", "conversations"})
    if (const auto found = row.find(member); found != row.end() && found->is_array() && !found->empty())
      return static_cast<std::int64_t>(found->size());
  return row.contains("prompt") && row.contains("completion") ? 2 : 0;
}

}  // namespace

std::optional<SeenChat> inspect_chat(const std::filesystem::path& file) {
  if (dataset::format_of(file.string(), dataset::TextFormat::auto_) != dataset::TextFormat::jsonl) return std::nullopt;
  SeenChat seen{.train = file.string(), .eval = std::nullopt};
  const core::MappedFile content(file);
  std::string_view text{reinterpret_cast<const char*>(content.bytes().data()), content.bytes().size()};
  std::vector<std::int64_t> sizes;
  while (!text.empty() && !seen.is_part) {
    const std::string_view line = core::trimmed(dataset::take_line(text), " \t\r");
    if (line.empty()) continue;
    const std::int64_t num_turns = turns_in(line);
    if (num_turns == 0 && seen.num_rows == 0) return std::nullopt;
    if (num_turns == 0)
      throw core::Error(file.string() + ": row " + std::to_string(seen.num_rows + 1) +
                        " is no conversation, and the rows before it are");
    ++seen.num_rows;
    seen.num_turns += num_turns;
    sizes.push_back(static_cast<std::int64_t>(line.size()));
    seen.is_part = seen.num_rows == kMostConversations && !text.empty();
  }
  if (sizes.empty()) return std::nullopt;
  const auto middle = sizes.begin() + std::ssize(sizes) / 2;
  std::nth_element(sizes.begin(), middle, sizes.end());
  seen.median_bytes = *middle;
  return seen;
}

}  // namespace trainctl::data_tools

#include "tracking/trackers/sample_predictions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base64.h"
#include "core/text.h"

namespace trainctl::tracking {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return core::format_digits(value.get<double>(), 4);
  return value.is_null() ? "" : value.dump();
}

/// Returns a text that stays in its cell of a Markdown table, and is no markup.
std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      cell += ' ';
      continue;
    }
    if (std::string_view("\\`*_{}[]<>()#|~!").find(c) != std::string_view::npos) cell += '\\';
    cell += c;
  }
  return cell;
}

/// Returns the columns of a sample: its number, what it shows, then label, prediction, score and loss.
std::vector<std::pair<std::string, std::string>> cells_of(const ordered_json& record) {
  std::vector<std::pair<std::string, std::string>> cells;
  for (const auto& [key, value] : record.items()) {
    if (key == "row" && value.is_object()) {
      for (const auto& [name, cell] : value.items()) cells.emplace_back(name, text_of(cell));
    } else if (key == "tokens" && value.is_array()) {
      std::string text;
      for (const ordered_json& token : value)
        if (token.is_array() && !token.empty()) text += text_of(token[0]);
      cells.emplace_back("text", std::move(text));
    } else {
      cells.emplace_back(key, text_of(value));
    }
  }
  return cells;
}

std::string table_of(const ordered_json& records) {
  std::vector<std::string> columns;
  for (const ordered_json& record : records)
    for (const auto& [name, cell] : cells_of(record))
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  std::string header = "|", rule = "|", rows;
  for (const std::string& column : columns) header += " " + markdown_cell(column) + " |", rule += "---|";
  for (const ordered_json& record : records) {
    const auto cells = cells_of(record);
    rows += "|";
    for (const std::string& column : columns) {
      const auto cell = std::ranges::find(cells, column, &std::pair<std::string, std::string>::first);
      rows += " " + (cell == cells.end() ? "" : markdown_cell(cell->second)) + " |";
    }
    rows += "\n";
  }
  return header + "\n" + rule + "\n" + rows;
}

/// Returns the bytes of the record's picture, which is a data URI; nothing if there is none.
std::optional<std::string> picture_of(const ordered_json& record) {
  const auto picture = record.find("picture");
  if (picture == record.end() || !picture->is_string()) return std::nullopt;
  const std::string uri = picture->get<std::string>();
  const std::size_t comma = uri.find(',');
  return comma == std::string::npos ? std::nullopt : core::from_base64(std::string_view(uri).substr(comma + 1));
}

std::string caption_of(const ordered_json& record) {
  const auto part = [&](const char* key) { return text_of(record.value(key, ordered_json())); };
  std::string caption = "sample " + part("sample");
  if (record.contains("label")) caption += ": " + part("label") + ", predicted " + part("prediction");
  return caption + ", loss " + part("loss");
}

}  // namespace

void add_sample_predictions(const ordered_json& predictions, SummaryValues& values) {
  if (!predictions.is_object()) return;
  for (const char* list : {"first", "worst"}) {
    ordered_json records = ordered_json::array();
    int number = 0;
    for (const ordered_json& record : predictions.value(list, ordered_json::array())) {
      if (!record.is_object()) continue;
      const std::optional<std::string> picture = picture_of(record);
      if (!picture) {
        records.push_back(record);
        continue;
      }
      ++number;
      const std::string tag = std::string("eval/") + list + (number < 10 ? "/0" : "/") + std::to_string(number);
      values.add_image(tag, {.bytes = *picture}, caption_of(record));
    }
    if (!records.empty()) values.add_text(std::string("eval/") + list, table_of(records));
  }
}

}  // namespace trainctl::tracking

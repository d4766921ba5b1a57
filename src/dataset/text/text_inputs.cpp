#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "dataset/inputs.h"
#include "dataset/text/reading/table_records.h"
#include "dataset/text/reading/text_reader.h"

namespace trainctl::dataset {
namespace {

using Use = std::function<void(LineInput<TextInput>)>;

/// The members or columns that hold the texts.
struct Columns {
  std::string text = "text";
  std::optional<std::string> pair{};
  bool wants_pair() const { return pair.has_value(); }
};

Columns columns_of(const DatasetConfig& config) {
  return config.source.visit([](const auto& source) -> Columns {
    if constexpr (requires { source.train.text_pair; })
      return {.text = source.train.text, .pair = source.train.text_pair};
    else if constexpr (requires { source.train.source; })
      return {.text = source.train.source};
    else if constexpr (requires { source.train.text; })
      return {.text = source.train.text};
    return {};
  });
}

LineInput<TextInput> failed(std::int64_t line, std::string error) {
  return {.line = line, .error = std::move(error)};
}

/// Makes an input of a line; for pairs the line is "first\tsecond".
LineInput<TextInput> of_line(std::string_view text, std::int64_t line, const Columns& columns) {
  if (!columns.wants_pair()) return {.line = line, .content = TextInput{.text = std::string(text)}};
  const std::size_t tab = text.find('\t');
  if (tab == std::string_view::npos) return failed(line, "a pair of texts was expected, with a tab between them");
  return {.line = line,
          .content = TextInput{.text = std::string(text.substr(0, tab)), .pair = std::string(text.substr(tab + 1))}};
}

LineInput<TextInput> of_json(std::string_view text, std::int64_t line, const Columns& columns) {
  const auto object = core::parse_json_or_discard(text);
  if (!object.is_object()) return failed(line, "the line is no JSON object");
  TextInput input;
  const auto member = [&](const std::string& name) -> std::optional<std::string> {
    const nlohmann::json* const found = find_member(object, name);
    if (found == nullptr || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  };
  const auto first = member(columns.text);
  if (!first) return failed(line, "the object has no text `" + columns.text + "`");
  input.text = *first;
  if (columns.wants_pair()) input.pair = member(*columns.pair);
  if (columns.wants_pair() && !input.pair) return failed(line, "the object has no text `" + *columns.pair + "`");
  return {.line = line, .content = std::move(input)};
}

void read_lines(std::string_view content, const Columns& columns, const Use& use,
                LineInput<TextInput> (*of)(std::string_view, std::int64_t, const Columns&)) {
  std::int64_t line = 0;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    std::string_view text = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    ++line;
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") != std::string_view::npos) use(of(text, line, columns));
  }
}

/// Returns the place of a column that is given by name, or by number from 1.
std::size_t place_of_column(const std::string& name, const std::vector<std::string>& header, std::string_view file) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  const bool is_number = !name.empty() && name.size() < 6 && name.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t number = is_number ? std::stoul(name) : 0;
  if (number >= 1 && number <= header.size()) return number - 1;
  throw core::Error(std::string(file) + " has no column `" + name + "`; its columns are " + core::list_words(header));
}

void read_cells(std::string_view content, std::string_view name, const Columns& columns, const Use& use) {
  const bool tabs = format_of(name, TextFormat::auto_) != TextFormat::csv;
  TableRecords records(std::string(name), content,
                       {.separator = tabs ? '\t' : ',', .quotes = tabs ? Quoting::none : Quoting::rfc4180});
  if (!records.next()) return;
  const std::vector<std::string> header = records.cells();
  const std::size_t text = place_of_column(columns.text, header, name);
  const std::size_t pair = columns.wants_pair() ? place_of_column(*columns.pair, header, name) : text;
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (cells.size() != header.size()) {
      use(failed(records.line(), "the row has " + std::to_string(cells.size()) + " columns, and the first one " +
                                     std::to_string(header.size())));
      continue;
    }
    TextInput input{.text = cells[text], .pair = std::nullopt};
    if (columns.wants_pair()) input.pair = cells[pair];
    use({.line = records.line(), .content = std::move(input)});
  }
}

}  // namespace

void read_text_inputs(const DatasetConfig& config, std::string_view content, std::string_view name, const Use& use) {
  const Columns columns = columns_of(config);
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  switch (format_of(name, TextFormat::auto_)) {
    case TextFormat::jsonl:
      return read_lines(content, columns, use, of_json);
    case TextFormat::csv:
    case TextFormat::tsv:
      return read_cells(content, name, columns, use);
    case TextFormat::parquet:
      throw core::Error(std::string(name) + ": predictions don't read Parquet")
          .hint("convert the file to CSV or JSON lines");
    case TextFormat::auto_:
    case TextFormat::text:
      return read_lines(content, columns, use, of_line);
  }
}

}  // namespace trainctl::dataset

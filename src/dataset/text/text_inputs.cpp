#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "dataset/inputs.h"
#include "dataset/text/reading/table_layout.h"
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

/// Returns how the training files are read, for an input whose ending one of them has, or that has their format.
TextFileOptions options_of(const DatasetConfig& config, std::string_view name) {
  TextFileOptions options{.format = format_of(name, TextFormat::auto_)};
  config.source.visit([&](const auto& source) {
    if constexpr (requires { source.train.files, source.train.format, source.train.encoding_errors; }) {
      const auto& train = source.train;
      options.encoding_errors = train.encoding_errors;
      if constexpr (requires { TextFormat{train.format}, train.quoting, train.header_lines; }) {
        const std::string ending = std::filesystem::path(name).extension().string();
        for (const std::string& file : train.files)
          if (!ending.empty() && file.ends_with(ending)) options.format = format_of(file, train.format);
        if (!has_format(train, options.format)) return;
        options.quoting = train.quoting;
        options.header_lines = train.header_lines;
      }
    }
  });
  return options;
}

void read_cells(std::string_view content, std::string_view name, const TextFileOptions& options, const Columns& columns,
                const Use& use) {
  if (content.empty()) return;
  std::vector<std::string> names{columns.text};
  if (columns.wants_pair()) names.push_back(*columns.pair);
  const std::filesystem::path file(name);
  const ColumnChoice choice = choice_of(names);
  const TableLayout layout = layout_of_table(file, content, known_text_layout(options.format, options), choice);
  // Whether the training files have a header isn't known here. A text that is taken for one would get no answer.
  if (choice == ColumnChoice::by_number && options.header_lines.is_auto() && layout.header_lines > 0)
    throw core::Error(place_of(file, layout.comment_lines + 1) +
                      ": this line may name the columns, or be a text; columns are chosen by number")
        .hint("--set dataset.train.header_lines=1 says that it names them, and 0 that it is a text");
  TableRecords records = layout.open_rows(file, content);
  std::size_t width = layout.header.size();
  std::vector<std::size_t> places;
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (places.empty()) {
      std::vector<std::string> header = layout.header;
      for (std::size_t i = header.size(); layout.header.empty() && i < cells.size(); ++i)
        header.push_back(std::to_string(i + 1));
      width = header.size();
      for (const std::string& one : names) places.push_back(column_of(one, header, file.string()));
    }
    if (cells.size() != width) {
      use(failed(records.line(), "the row has " + std::to_string(cells.size()) + " columns, and the first one " +
                                     std::to_string(width)));
      continue;
    }
    TextInput input{.text = cells[places[0]], .pair = std::nullopt};
    if (columns.wants_pair()) input.pair = cells[places[1]];
    use({.line = records.line(), .content = std::move(input)});
  }
}

}  // namespace

void read_text_inputs(const DatasetConfig& config, std::string_view content, std::string_view name, const Use& use) {
  const Columns columns = columns_of(config);
  const TextFileOptions options = options_of(config, name);
  std::string converted;
  content = text_of_bytes(content, {.invalid = options.encoding_errors}, std::string(name), converted);
  switch (options.format) {
    case TextFormat::jsonl:
      return read_lines(content, columns, use, of_json);
    case TextFormat::csv:
    case TextFormat::tsv:
      return read_cells(content, name, options, columns, use);
    case TextFormat::parquet:
      throw core::Error(std::string(name) + ": predictions don't read Parquet")
          .hint("convert the file to CSV or JSON lines");
    case TextFormat::auto_:
    case TextFormat::text:
      return read_lines(content, columns, use, of_line);
  }
}

}  // namespace trainctl::dataset

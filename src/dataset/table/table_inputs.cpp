#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "dataset/files/parquet_file.h"
#include "dataset/inputs.h"
#include "dataset/table/table_data.h"
#include "dataset/table/table_encoding.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/table_records.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::dataset {
namespace {

/// Returns the number, days or code of a cell; NaN if it has no value.
double value_of(const ColumnEncoding& column, TableCell cell, char decimal, MissingValues missing) {
  const bool is_category = column.kind == ColumnKind::category;
  const bool has_value = is_category && cell.is_quoted ? !cell.text.empty() : !is_missing(cell.text);
  const bool is_left_out = !has_value && missing == MissingValues::drop;  // so that training saw no such row
  if (is_category && !is_left_out) return column.code_of(has_value ? std::string(cell.text) : "");
  if (!has_value) {
    if (missing == MissingValues::mean) return std::numeric_limits<double>::quiet_NaN();
    throw core::Error("column '" + column.name + "' is missing")
        .hint(is_left_out ? "training left such rows out (dataset.missing_values: drop)"
                          : "dataset.missing_values: mean takes the column's mean");
  }
  const std::optional<double> value =
      column.kind == ColumnKind::number ? number_in(cell.text, decimal) : date_in(cell.text);
  if (value && std::isinf(*value)) throw core::Error("column '" + column.name + "' is infinite");
  if (value) return *value;
  throw core::Error("column '" + column.name + "' should be a " + name_of(column.kind) + ", but is '" +
                    std::string(cell.text.substr(0, 40)) + "'");
}

/// Returns the value of a cell in a file with types.
double stored_value(const ColumnEncoding& column, const ParquetRow& row, std::size_t place, ParquetType type,
                    MissingValues missing) {
  const bool is_text = type == ParquetType::text;
  if (is_text || column.kind == ColumnKind::category)
    return value_of(column, {.text = row.text_of(place), .is_quoted = is_text}, '.', missing);
  const ColumnKind stored = type == ParquetType::date ? ColumnKind::date : ColumnKind::number;
  if (!std::isnan(row.values[place]) && stored != column.kind)
    throw core::Error("column '" + column.name + "' should be a " + name_of(column.kind) + ", but is stored as a " +
                      name_of(stored));
  if (!std::isnan(row.values[place]) && !std::isinf(row.values[place])) return row.values[place];
  return value_of(column, {.text = std::isnan(row.values[place]) ? "" : "inf"}, '.', missing);
}

}  // namespace

TableInputs::TableInputs(const TableConfig& config, std::shared_ptr<const TableEncoding> encoding)
    : config_(config), encoding_(std::move(encoding)) {
  const bool has_comma = std::any_of(encoding_->columns.begin(), encoding_->columns.end(),
                                     [](const ColumnEncoding& column) { return column.has_decimal_comma; });
  if (has_comma && config_.decimal == DecimalSign::auto_) config_.decimal = DecimalSign::comma;
}

std::unique_ptr<const TableInputs> table_inputs_of(const SourceConfig& source, const SampleSpec& spec) {
  const auto* table = source.get_if<TableConfig>();
  return table == nullptr ? nullptr : std::make_unique<const TableInputs>(*table, spec.table);
}

at::Tensor TableInputs::row_of(const std::vector<double>& values) const {
  const at::Tensor row = at::empty({encoding_->width()}, at::TensorOptions(at::kFloat));
  encoding_->encode(values, row.mutable_data_ptr<float>());
  return row;
}

void TableInputs::read(std::string_view content, std::string_view name, const Use& use) const {
  std::string converted;
  const std::string_view text = text_of_bytes(content, {.encoding = config_.encoding}, std::string(name), converted);
  std::vector<std::string> features;
  for (const ColumnEncoding& column : encoding_->columns) features.push_back(column.name);
  KnownLayout known = known_layout(config_, std::string(name));
  known.has_header = encoding_->has_header(config_.label);
  const TableLayout layout = layout_of_table(std::string(name), text, known, choice_of(features));
  std::vector<std::string> header = layout.header;
  std::optional<std::vector<std::size_t>> places;
  TableRecords records = layout.open_rows(std::string(name), text);
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (!places) {
      for (std::size_t i = header.size(); layout.header.empty() && i < cells.size(); ++i)
        header.push_back(std::to_string(i + 1));
      places = places_of(header, name);
    }
    LineInput<at::Tensor> input{.line = records.line(), .content = std::nullopt, .error = ""};
    try {
      if (cells.size() != header.size())
        throw core::Error("the row has " + std::to_string(cells.size()) + " columns, and the first one " +
                          std::to_string(header.size()));
      std::vector<double> values;
      for (std::size_t i = 0; i < places->size(); ++i) {
        const std::size_t place = (*places)[i];
        const bool is_quoted = records.is_quoted(place);
        const TableCell cell{.text = is_quoted ? cells[place] : core::trimmed(cells[place]), .is_quoted = is_quoted};
        values.push_back(value_of(encoding_->columns[i], cell, layout.format.decimal, config_.missing_values));
      }
      input.content = row_of(values);
    } catch (const core::Error& error) {
      input.error = error.what();
    }
    use(std::move(input));
  }
}

void TableInputs::read_parquet(const std::filesystem::path& file, const Use& use) const {
  std::vector<ParquetType> types;
  const auto choose = [&](const std::vector<ParquetColumn>& stored) {
    std::vector<std::string> header;
    for (const ParquetColumn& column : stored) header.push_back(column.name);
    std::vector<int> chosen;
    for (const std::size_t place : places_of(unique_names(std::move(header)), file.string())) {
      types.push_back(stored[place].type);
      chosen.push_back(static_cast<int>(place));
    }
    return chosen;
  };
  read_parquet_file(file, choose, [&](const ParquetRow& row) {
    LineInput<at::Tensor> input{.line = row.number, .content = std::nullopt, .error = ""};
    try {
      std::vector<double> values;
      for (std::size_t i = 0; i < types.size(); ++i)
        values.push_back(stored_value(encoding_->columns[i], row, i, types[i], config_.missing_values));
      input.content = row_of(values);
    } catch (const core::Error& error) {
      input.error = error.what();
    }
    use(std::move(input));
  });
}

std::vector<std::size_t> TableInputs::places_of(const std::vector<std::string>& header, std::string_view name) const {
  std::vector<std::size_t> places;
  for (const ColumnEncoding& column : encoding_->columns)
    places.push_back(column_of(column.name, header, std::string(name)));
  return places;
}

}  // namespace trainctl::dataset

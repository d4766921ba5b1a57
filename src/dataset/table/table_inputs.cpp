#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "dataset/inputs.h"
#include "dataset/table/table_data.h"
#include "dataset/table/table_encoding.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/table_records.h"

namespace trainctl::dataset {
namespace {

constexpr const char* kAbsentLabel = "(no label)";  // stands for the column that such tables needn't have

/// Returns the number, days or code of a cell; NaN if it has no value.
float value_of(const ColumnEncoding& column, std::string_view cell, MissingValues missing) {
  if (column.kind == ColumnKind::category) return column.code_of(is_missing(cell) ? "" : std::string(cell));
  if (is_missing(cell)) {
    if (missing == MissingValues::mean) return std::numeric_limits<float>::quiet_NaN();
    throw core::Error("column '" + column.name + "' is missing")
        .hint("dataset.missing_values: mean takes the column's mean");
  }
  const std::optional<float> value = column.kind == ColumnKind::number ? number_in(cell) : date_in(cell);
  if (value) return *value;
  throw core::Error("column '" + column.name + "' should be a " + name_of(column.kind) + ", but is '" +
                    std::string(cell.substr(0, 40)) + "'");
}

}  // namespace

TableInputs::TableInputs(const TableConfig& config, std::shared_ptr<const TableEncoding> encoding)
    : config_(config), encoding_(std::move(encoding)) {}

std::unique_ptr<const TableInputs> table_inputs_of(const SourceConfig& source, const SampleSpec& spec) {
  const auto* table = source.get_if<TableConfig>();
  return table == nullptr ? nullptr : std::make_unique<const TableInputs>(*table, spec.table);
}

at::Tensor TableInputs::row_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& places) const {
  std::vector<float> values;
  for (std::size_t i = 0; i < places.size(); ++i)
    values.push_back(value_of(encoding_->columns[i], core::trimmed(cells[places[i]]), config_.missing_values));
  const at::Tensor row = at::empty({encoding_->width()}, at::TensorOptions(at::kFloat));
  encoding_->encode(values, row.mutable_data_ptr<float>());
  return row;
}

void TableInputs::read(std::string_view content, std::string_view name,
                       const std::function<void(LineInput<at::Tensor>)>& use) const {
  const std::string_view text = without_byte_order_mark(content);
  const bool tabs = name.ends_with(".tsv") || name.ends_with(".tab");
  std::vector<std::string> features;
  for (const ColumnEncoding& column : encoding_->columns) features.push_back(column.name);
  const TableLayout layout =
      layout_of_table(std::string(name), text, text_format(text, tabs ? TableFileFormat::tsv : config_.format),
                      config_.header_lines, choice_of(features));
  std::vector<std::string> header = layout.header;
  TableBuilder builder({.features = std::move(features), .label = kAbsentLabel});
  std::optional<TableBuilder::Layout> columns;
  TableRecords records = layout.open_rows(std::string(name), text);
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (!columns) {
      for (std::size_t i = header.size(); i < cells.size(); ++i) header.push_back(std::to_string(i + 1));
      header.emplace_back(kAbsentLabel);
      columns = builder.begin_file(std::string(name), header);
    }
    LineInput<at::Tensor> input{.line = records.line(), .content = std::nullopt, .error = ""};
    try {
      if (cells.size() + 1 != header.size())
        throw core::Error("the row has " + std::to_string(cells.size()) + " columns, and the first one " +
                          std::to_string(header.size() - 1));
      input.content = row_of(cells, columns->features);
    } catch (const core::Error& error) {
      input.error = error.what();
    }
    use(std::move(input));
  }
}

}  // namespace trainctl::dataset

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "dataset/inputs.h"
#include "dataset/table/table_data.h"
#include "dataset/text/reading/table_records.h"

namespace trainctl::dataset {
namespace {

constexpr const char* kAbsentLabel = "(no label)";  // stands for the column that such tables needn't have

}  // namespace

TableInputs::TableInputs(const TableConfig& config) : config_(config) {
  TableScaling scaling = table_scaling(config);
  features_ = std::move(scaling.features);
  mean_ = std::move(scaling.mean);
  scale_ = std::move(scaling.scale);
}

std::unique_ptr<const TableInputs> table_inputs_of(const SourceConfig& source) {
  const auto* table = source.get_if<TableConfig>();
  return table == nullptr ? nullptr : std::make_unique<const TableInputs>(*table);
}

at::Tensor TableInputs::row_of(const std::vector<std::optional<float>>& values) const {
  std::vector<float> row;
  for (std::size_t f = 0; f < values.size(); ++f) {
    if (!values[f] && config_.missing_values != MissingValues::mean)
      throw core::Error("column '" + features_[f] + "' is missing")
          .hint("dataset.missing_values: mean takes the column's mean");
    const double value = values[f] ? static_cast<double>(*values[f]) : mean_[f];
    row.push_back(
        static_cast<float>(config_.feature_scaling == FeatureScaling::none ? value : (value - mean_[f]) * scale_[f]));
  }
  return at::tensor(row);
}

void TableInputs::read(std::string_view content, std::string_view name,
                       const std::function<void(LineInput<at::Tensor>)>& use) const {
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  const bool tabs = name.ends_with(".tsv") || name.ends_with(".tab") || config_.format == TableFileFormat::tsv;
  TableRecords records(std::string(name), content,
                       {.separator = tabs ? '\t' : ',', .quotes = tabs ? Quoting::none : Quoting::rfc4180});
  const bool by_number =
      core::is_number(config_.label) && std::all_of(config_.features.begin(), config_.features.end(), core::is_number);
  std::vector<std::string> header;
  for (std::int64_t i = 0; i < config_.header_lines.value.value_or(by_number ? 0 : 1); ++i) {
    if (!records.next()) throw core::Error(std::string(name) + " ends before its header does");
    if (i == 0) header = records.cells();
  }
  TableBuilder builder({.features = features_, .label = kAbsentLabel, .label_type = LabelType::class_});
  TableBuilder::Layout layout;
  std::size_t width = 0;
  while (records.next()) {
    const std::vector<std::string>& cells = records.cells();
    if (width == 0) {
      width = cells.size();
      for (std::size_t i = header.size(); i < width; ++i) header.push_back(std::to_string(i + 1));
      header.emplace_back(kAbsentLabel);
      layout = builder.begin_file(std::string(name), header);
    }
    LineInput<at::Tensor> input{.line = records.line(), .content = std::nullopt, .error = ""};
    try {
      if (cells.size() + 1 != header.size())
        throw core::Error("the row has " + std::to_string(cells.size()) + " columns, and the first one " +
                          std::to_string(header.size() - 1));
      std::vector<std::optional<float>> values;
      for (const std::size_t feature : layout.features)
        values.push_back(builder.number(core::trimmed(cells[feature]), values.size(), records.line()));
      input.content = row_of(values);
    } catch (const core::Error& error) {
      input.error = error.what();
    }
    use(std::move(input));
  }
}

}  // namespace trainctl::dataset

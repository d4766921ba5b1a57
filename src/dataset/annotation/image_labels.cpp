#include "dataset/annotation/image_labels.h"

#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "dataset/table/table_data.h"
#include "dataset/text/class_labels.h"
#include "dataset/text/reading/column_kind.h"
#include "dataset/text/reading/table_layout.h"
#include "dataset/text/reading/text_file.h"

namespace trainctl::dataset {
namespace {

/// The columns that are read, in the order in which messages name them.
std::vector<std::string> chosen_columns(const ImageLabelsConfig& config) {
  std::vector<std::string> columns{config.file};
  if (config.label_columns.empty()) columns.push_back(config.label);
  columns.insert(columns.end(), config.label_columns.begin(), config.label_columns.end());
  return columns;
}

/// Splits a cell, without the spaces around its labels. Empty labels are none.
std::vector<std::string> split_labels(std::string_view cell, std::string_view separator) {
  std::vector<std::string> labels;
  while (!cell.empty()) {
    const std::size_t end = std::min(cell.find(separator), cell.size());
    if (const std::string_view label = core::trimmed(cell.substr(0, end)); !label.empty()) labels.emplace_back(label);
    cell.remove_prefix(std::min(end + separator.size(), cell.size()));
  }
  return labels;
}

/// Turns the cells of a table into rows.
class LabelTable {
 public:
  LabelTable(const ImageLabelsConfig& config, std::string path) : config_(config) { found_.path = std::move(path); }

  void take_header(const std::vector<std::string>& header) {
    header_ = header;
    for (const std::string& column : chosen_columns(config_))
      columns_.push_back(column_of(column, header, found_.path));
  }
  bool has_header() const { return !columns_.empty(); }

  void add(const std::vector<std::string>& cells, std::int64_t line) {
    ImageLabelRow row{.file = "", .labels = {}, .line = line};
    const std::string place = found_.place(row);
    if (cells.size() != header_.size())
      throw core::Error(place + ": this row has " + std::to_string(cells.size()) + " columns, and the first one " +
                        std::to_string(header_.size()));
    row.file = core::trimmed(cells[columns_[0]]);
    if (row.file.empty()) throw core::Error(place + ": the file name is empty");
    const auto [known, is_new] = lines_.emplace(row.file, line);
    if (!is_new)
      throw core::Error(place + ": " + row.file + " has a row already, in line " + std::to_string(known->second))
          .hint(config_.are_sets() ? "write all labels of an image into one row"
                                   : "dataset.labels.separator allows an image several labels, all in one row");
    row.labels = config_.label_columns.empty() ? labels_in(cells[columns_[1]], place) : flagged(cells, place);
    found_.rows.push_back(std::move(row));
  }

  ImageLabelRows take() { return std::move(found_); }

 private:
  std::vector<std::string> labels_in(const std::string& cell, const std::string& place) const {
    if (config_.separator) return split_labels(cell, *config_.separator);
    std::string label(core::trimmed(cell));
    if (label.empty()) throw core::Error(place + ": the label is empty").hint("is it the right column?");
    return {std::move(label)};
  }

  std::vector<std::string> flagged(const std::vector<std::string>& cells, const std::string& place) const {
    std::vector<std::string> labels;
    for (std::size_t i = 0; i < config_.label_columns.size(); ++i) {
      const std::string_view cell = core::trimmed(cells[columns_[i + 1]]);
      const std::optional<double> flag = number_in(cell);
      if (!flag || (*flag != 0 && *flag != 1))
        throw core::Error(place + ": column '" + config_.label_columns[i] + "' should be 0 or 1, got '" +
                          std::string(cell.substr(0, 60)) + "'");
      if (*flag == 1) labels.push_back(name_of_column(i));
    }
    return labels;
  }

  /// A column that is chosen by its number has the name in the header.
  const std::string& name_of_column(std::size_t i) const {
    return config_.class_names.empty() ? config_.label_columns[i] : config_.class_names[i];
  }

  const ImageLabelsConfig& config_;
  ImageLabelRows found_;
  std::vector<std::string> header_;
  std::vector<std::size_t> columns_;
  std::unordered_map<std::string, std::int64_t> lines_;  // of each file
};

}  // namespace

ImageLabelRows read_image_labels(const std::string& path, const ImageLabelsConfig& config, std::int64_t most_rows) {
  const TextFile content(path);
  const std::string_view text = content.text();
  const TableLayout layout =
      layout_of_table(path, text, known_layout(TableConfig(), path), choice_of(chosen_columns(config)));
  LabelTable table(config, path);
  if (!layout.header.empty()) table.take_header(layout.header);
  TableRecords records = layout.open_rows(path, text);
  for (std::int64_t row = 0; row < most_rows && records.next(); ++row) {
    if (!table.has_header()) {
      std::vector<std::string> numbers;
      for (std::size_t i = 1; i <= records.cells().size(); ++i) numbers.push_back(std::to_string(i));
      table.take_header(numbers);
    }
    table.add(records.cells(), records.line());
  }
  ImageLabelRows rows = table.take();
  if (rows.rows.empty()) throw core::Error(path + " has no rows");
  return rows;
}

std::vector<std::string> class_names_of(const ImageLabelsConfig& config, const ImageLabelRows& training) {
  if (!config.class_names.empty()) return config.class_names;
  if (!config.label_columns.empty()) return config.label_columns;
  ClassNames names;
  for (const ImageLabelRow& row : training.rows)
    for (const std::string& label : row.labels) names.add(label, training.place(row));
  std::vector<std::string> sorted = sorted_as_numbers(names.sorted());
  if (sorted.empty()) throw core::Error(training.path + ": no row has a label").hint("is it the right column?");
  return sorted;
}

}  // namespace trainctl::dataset

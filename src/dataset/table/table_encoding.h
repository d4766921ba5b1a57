// How the columns of a table become inputs of a network: learned from the training rows, kept with the model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dataset/config.h"
#include "dataset/text/reading/column_kind.h"

namespace trainctl::dataset {

struct TableData;

/// The inputs of one column.
struct ColumnEncoding {
  std::string name;          // or the column's number from 1, in a file without a header
  bool is_numbered = false;  // the name is such a number: the training files have no header, and so have no others
  ColumnKind kind = ColumnKind::number;
  double fill = 0;                 // of a number or date: stands for a missing value
  double mean = 0;                 // of a number or date
  double scale = 1;                // of a number or date: 1 / standard deviation
  bool has_decimal_comma = false;  // of a number: in the training files, and so in all others
  /// Ascending edges of the bins of a number's piecewise linear encoding; empty: the number is scaled. Source:
  /// Gorishniy, Rubachev, Babenko, "On Embeddings for Numerical Features in Tabular Deep Learning", 2022, equation 1.
  std::vector<double> bin_edges{};
  bool has_time = false;                  // of a date: days have hours
  std::vector<std::string> categories{};  // of a category: those with an input of their own; "" stands for no value
  bool has_other = false;                 // of a category: one more input stands for all other categories

  /// Returns the number of inputs.
  std::int64_t width() const;
  /// Returns the number of a category in `categories`; that of the other categories, or -1, if it is none of them.
  /// Throws core::Error if it is the same number as one of them, written otherwise.
  double code_of(const std::string& category) const;
  /// Writes width() inputs. `value` is a number, the days of a date, or the code of a category; NaN: missing.
  void encode(double value, float* inputs) const;
};

struct TableEncoding {
  std::vector<ColumnEncoding> columns;
  std::int64_t width() const;
  /// Returns whether the training files named their columns. A label that is chosen by name was in a header, too.
  bool has_header(const std::string& label) const;
  /// Writes width() inputs of a row with one value per column.
  void encode(std::span<const double> values, float* inputs) const;
};

/// Learns from the rows with these numbers. Leaves out columns of categories that are new in almost every row, and
/// tells so. Throws core::Error if a column has no value.
TableEncoding learn_encoding(const TableData& data, const std::vector<std::size_t>& rows, const TableConfig& config,
                             const std::function<void(const std::string&)>& tell);

/// Writes an encoding as JSON text.
std::string text_of_encoding(const TableEncoding& encoding);
/// Reads what text_of_encoding wrote; throws core::Error or nlohmann::json::exception if the text is something else.
TableEncoding encoding_of_text(const std::string& text);

}  // namespace trainctl::dataset

// Tables with the labels of image files.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "dataset/config.h"

namespace trainctl::dataset {

/// A row of such a table.
struct ImageLabelRow {
  std::string file;                 // as the table has it
  std::vector<std::string> labels;  // one, or any number of them
  std::int64_t line = 0;            // from 1
};

/// The rows of a table.
struct ImageLabelRows {
  std::string path;
  std::vector<ImageLabelRow> rows;

  /// "labels.csv:17"
  std::string place(const ImageLabelRow& row) const { return path + ":" + std::to_string(row.line); }
};

/// Reads a CSV or TSV file. Throws core::Error, with the row, if a column isn't there or a row has another number of
/// cells. The same holds for an empty file name or label, a file with two rows, and a flag other than 0 and 1.
ImageLabelRows read_image_labels(const std::string& path, const ImageLabelsConfig& config,
                                 std::int64_t most_rows = std::numeric_limits<std::int64_t>::max());

/// Returns the classes of the config, or those of the rows. `training`: the rows of the training set.
std::vector<std::string> class_names_of(const ImageLabelsConfig& config, const ImageLabelRows& training);

}  // namespace trainctl::dataset

// What someone wants predictions for, made as the samples of an evaluation set are, but without targets. Input that
// can't be used is an Error (of that input alone).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/config.h"
#include "dataset/dataset.h"

namespace trainctl::dataset {

/// Images through the evaluation's transforms. For one thread.
class ImageInputs {
 public:
  /// `spec`: of the loader, whose shape the transforms must arrive at.
  ImageInputs(const DatasetConfig& config, const SampleSpec& spec);
  ~ImageInputs();
  /// The content of a JPEG, PNG or WebP file -> float [C, H, W]. Greys where the network takes one channel.
  at::Tensor read(std::string_view bytes, std::string_view name);

 private:
  struct Workshop;
  std::unique_ptr<Workshop> workshop_;
};

/// A text, or a pair of texts.
struct TextInput {
  std::string text;
  std::optional<std::string> pair{};
};

/// One input of a file with several: its line, from 1, and its content or what is wrong with it.
template <class Content>
struct LineInput {
  std::int64_t line = 0;
  std::optional<Content> content{};
  std::string error{};
};

/// Reads the text inputs of a file, and passes each to `use`. The ending of `name` gives the format. A .jsonl file has
/// one object per line, a .csv or .tsv file columns; the config names the members or columns. Any other file has one
/// text per line, or a pair of texts with a tab between them. An empty line is no input.
void read_text_inputs(const DatasetConfig& config, std::string_view content, std::string_view name,
                      const std::function<void(LineInput<TextInput>)>& use);

/// Rows of tables.
class TableInputs {
 public:
  /// Reads the training rows: they decide on scaling.
  explicit TableInputs(const TableConfig& config);
  /// CSV (TSV, where the name says so), with the names of its columns first unless the config numbers them. Other
  /// columns than features are passed over. Gives float [features] of each row.
  void read(std::string_view content, std::string_view name,
            const std::function<void(LineInput<at::Tensor>)>& use) const;

 private:
  at::Tensor row_of(const std::vector<std::optional<float>>& values) const;

  TableConfig config_;
  std::vector<std::string> features_;
  std::vector<double> mean_;
  std::vector<double> scale_;  // 1 / standard deviation
};

/// Null if the dataset's samples aren't rows of a table.
std::unique_ptr<const TableInputs> table_inputs_of(const SourceConfig& source);

/// What the training rows of a table decide on for all rows.
struct TableScaling {
  std::vector<std::string> features;
  std::vector<double> mean;
  std::vector<double> scale;  // 1 / standard deviation; 1 where all are equal
};
TableScaling table_scaling(const TableConfig& config);

}  // namespace trainctl::dataset

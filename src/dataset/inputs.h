// What someone wants predictions for, made as the samples of an evaluation set are, but without targets. Input that
// can't be used is an Error (of that input alone).
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
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

/// Returns the files that the user names: paths, globs, and directories, of which those with the endings are taken.
std::vector<std::string> input_files(const std::vector<std::string>& patterns, const std::vector<std::string>& endings);

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
  using Use = std::function<void(LineInput<at::Tensor>)>;
  /// `encoding`: how the columns became inputs in training.
  TableInputs(const TableConfig& config, std::shared_ptr<const TableEncoding> encoding);
  /// Reads the rows of a text table, as the training rows were read. A header names the columns unless the config
  /// numbers them. Columns that are no features are passed over. Passes float [inputs] of each row to `use`.
  void read(std::string_view content, std::string_view name, const Use& use) const;
  /// Reads the rows of a Parquet file likewise.
  void read_parquet(const std::filesystem::path& file, const Use& use) const;

 private:
  at::Tensor row_of(const std::vector<double>& values) const;
  /// Returns the place of each column of the encoding.
  std::vector<std::size_t> places_of(const std::vector<std::string>& header, std::string_view name) const;

  TableConfig config_;
  std::shared_ptr<const TableEncoding> encoding_;
};

/// Null if the dataset's samples aren't rows of a table.
std::unique_ptr<const TableInputs> table_inputs_of(const SourceConfig& source, const SampleSpec& spec);

}  // namespace trainctl::dataset

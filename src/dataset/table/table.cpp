// Rows of a table as samples: float [inputs] and a class or a value. A cell takes one float, in memory or in a file.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/files/file_list.h"
#include "dataset/image/transform/transform.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"
#include "dataset/table/table_data.h"
#include "dataset/table/table_encoding.h"
#include "dataset/text/class_labels.h"

namespace trainctl::dataset {
namespace {

/// How the columns of the data become those of an encoding.
struct ColumnMap {
  std::vector<std::size_t> columns;        // of the data, for each of the encoding
  std::vector<std::vector<double>> codes;  // of the data's categories; empty: the values stay
};

/// Rows of numbers and codes of categories, which become the inputs of a network when they are read.
class Table final : public RawSource {
 public:
  /// `classes`: the class of each of the data's label names.
  Table(std::shared_ptr<const TableData> data, std::vector<std::uint32_t> rows, ColumnMap map,
        std::vector<std::int64_t> classes, SampleSpec spec)
      : data_(std::move(data)),
        rows_(std::move(rows)),
        map_(std::move(map)),
        classes_(std::move(classes)),
        spec_(std::move(spec)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t width() const { return spec_.input_shape[0]; }
  /// Returns the bytes of a sample, float [F].
  std::int64_t sample_bytes() const override { return width() * static_cast<std::int64_t>(sizeof(float)); }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    thread_local std::vector<double> values;
    read_values(index, values);
    spec_.table->encode(values, reinterpret_cast<float*>(sample));
    return target(index);
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> labels;
    for (std::int64_t index = 0; spec_.targets == Targets::labels && index < size(); ++index)
      labels.push_back(target(index));
    return labels;
  }
  std::string fingerprint() const override {
    core::Checksum of_values;
    core::Checksum of_targets;
    std::vector<double> values;
    for (std::int64_t index = 0; index < size(); ++index) {
      read_values(index, values);
      of_values.update(std::as_bytes(std::span<const double>(values)));
      const std::int64_t one = target(index);
      of_targets.update(std::as_bytes(std::span(&one, 1)));
    }
    const std::string scaling = spec_.labels == kAsTheyAre
                                    ? ""
                                    : "label_scaling " + core::format_digits(spec_.labels.mean, 17) + " " +
                                          core::format_digits(spec_.labels.deviation, 17);
    return core::checksum("table " + text_of_encoding(*spec_.table) + scaling + of_values.digest() +
                          of_targets.digest());
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

 private:
  /// Fills in the values of the encoding's columns, with its codes of categories.
  void read_values(std::int64_t index, std::vector<double>& values) const {
    values.clear();
    const double* stored = data_->values.data() + rows_[static_cast<std::size_t>(index)] * data_->num_features();
    for (std::size_t i = 0; i < map_.columns.size(); ++i) {
      const double value = stored[map_.columns[i]];
      values.push_back(map_.codes[i].empty() ? value : map_.codes[i][static_cast<std::size_t>(value)]);
    }
  }
  /// Returns a class, or the bits of a standardized label.
  std::int64_t target(std::int64_t index) const {
    const std::size_t row = rows_[static_cast<std::size_t>(index)];
    return data_->classes.empty() ? std::bit_cast<std::int64_t>(spec_.labels.standardized(data_->targets[row]))
                                  : classes_[static_cast<std::size_t>(data_->classes[row])];
  }

  std::shared_ptr<const TableData> data_;
  std::vector<std::uint32_t> rows_;
  ColumnMap map_;
  std::vector<std::int64_t> classes_;
  SampleSpec spec_;
};

class TableWriter final : public SampleWriter {
 public:
  explicit TableWriter(const Table& source) : source_(source) {}

  std::int64_t input_bytes() const override { return source_.sample_bytes(); }
  std::int64_t target_count() const override { return 1; }
  Scratch make_scratch() const override { return {}; }
  void write(SampleKey key, Scratch&, std::byte* input, std::int64_t* target) const override {
    *target = source_.get(key.index, input);
  }
  Batch wrap(std::int64_t count, void* inputs, void* targets,
             const std::function<void(void*)>& release) const override {
    const bool classes = source_.spec().targets == Targets::labels;
    const at::Tensor numbers =
        at::from_blob(targets, {count}, release, at::TensorOptions(classes ? at::kLong : at::kDouble));
    return {.inputs = at::from_blob(inputs, {count, source_.width()}, release, at::TensorOptions(at::kFloat)),
            .targets = classes ? numbers : numbers.to(at::kFloat)};
  }

 private:
  const Table& source_;
};

std::unique_ptr<SampleWriter> Table::make_writer(Phase, std::uint64_t) const {
  data_->values.expect_random_reads();  // in the shuffled order of an epoch
  return std::make_unique<TableWriter>(*this);
}

/// Returns whether a cell has no value. That of a category is a category of its own, unless such rows are left out.
bool has_no_value(const TableData& data, std::size_t row, std::size_t column, MissingValues missing) {
  const double value = data.values[row * data.num_features() + column];
  if (data.kinds[column] != ColumnKind::category) return std::isnan(value);
  return missing == MissingValues::drop && data.categories[column][static_cast<std::size_t>(value)].empty();
}

/// Returns the rows that remain after the policy on missing values.
std::vector<std::size_t> usable_rows(const TableData& data, MissingValues missing) {
  std::vector<std::size_t> rows;
  const std::size_t width = data.num_features();
  for (std::size_t row = 0; row < data.num_rows(); ++row) {
    const bool labelled = data.classes.empty() ? !std::isnan(data.targets[row]) : data.classes[row] >= 0;
    std::size_t empty = 0;  // the first column without a value
    while (empty < width && !has_no_value(data, row, empty, missing)) ++empty;
    const bool whole = empty == width;
    if (missing != MissingValues::drop && !labelled)
      throw core::Error(data.place(row) + ": the label is missing")
          .hint(
              "dataset.missing_values: drop leaves such rows out; NA or None is a class where it stands in quotes, or "
              "in dataset.class_names");
    if (missing == MissingValues::error && !whole)
      throw core::Error(data.place(row) + ": column '" + data.features[empty] + "' is missing")
          .hint("dataset.missing_values: drop leaves such rows out, mean takes the column's mean");
    if (labelled && (whole || missing == MissingValues::mean)) rows.push_back(row);
  }
  if (rows.empty())
    throw core::Error(data.paths.front() + ": every row misses something").hint("set dataset.missing_values: mean");
  return rows;
}

std::vector<std::string> class_names(const TableConfig& config, const TableData& data, const LoaderOptions& options) {
  if (config.label_type == LabelType::value) return {};
  if (options.trained != nullptr) return options.trained->class_names;
  return config.class_names.empty() ? sorted_as_numbers(data.label_names) : config.class_names;
}

/// Returns the number of a label among the names; names.size() if it is none of them. A label that only ends with a
/// full stop more than a name stands for the name: UCI Adult's test set writes its labels so.
std::size_t class_of(const std::string& label, const std::vector<std::string>& names) {
  const auto place_of = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const std::size_t found = place_of(label);
  return found < names.size() || !label.ends_with('.') ? found : place_of(label.substr(0, label.size() - 1));
}

/// Returns the class of each of the data's label names. A label of the rows that is no class is an Error.
std::vector<std::int64_t> classes_of(const TableData& data, const std::vector<std::size_t>& rows,
                                     const std::vector<std::string>& names) {
  std::vector<std::int64_t> classes;
  for (const std::string& name : data.label_names) classes.push_back(static_cast<std::int64_t>(class_of(name, names)));
  if (data.classes.empty()) return classes;
  for (const std::size_t row : rows) {
    const auto label = static_cast<std::size_t>(data.classes[row]);
    if (classes[label] == static_cast<std::int64_t>(names.size()))
      throw core::Error(data.place(row) + ": the label '" + data.label_names[label] +
                        "' is none of the classes: " + core::list_words(names, "or"))
          .hint("dataset.class_names lists them; without it, they are those of the training rows");
  }
  return classes;
}

ColumnMap map_columns(const TableData& data, const TableEncoding& encoding) {
  ColumnMap map;
  for (const ColumnEncoding& column : encoding.columns) {
    const auto found = std::find(data.features.begin(), data.features.end(), column.name);
    if (found == data.features.end())
      throw core::Error(data.paths.front() + " has no column '" + column.name + "', which the model was trained with");
    map.columns.push_back(static_cast<std::size_t>(found - data.features.begin()));
    std::vector<double>& own = map.codes.emplace_back();
    if (column.kind == ColumnKind::category)
      for (const std::string& category : data.categories[map.columns.back()]) own.push_back(column.code_of(category));
  }
  return map;
}

/// What is learned from the training rows, and holds for all sets.
struct Learned {
  std::shared_ptr<const TableEncoding> encoding;
  std::vector<std::string> class_names;
  Standardization labels;
};

Standardization label_standardization(const TableConfig& config, const TableData& data,
                                      const std::vector<std::size_t>& rows, const LoaderOptions& options) {
  if (options.trained != nullptr) return options.trained->labels;
  if (config.label_scaling == LabelScaling::none) return kAsTheyAre;
  std::vector<double> labels;
  for (const std::size_t row : rows) labels.push_back(data.targets[row]);
  return standardization_of(labels);
}

std::unique_ptr<Source> make_source(const std::shared_ptr<const TableData>& data, const std::vector<std::size_t>& rows,
                                    const Learned& learned) {
  if (data->num_rows() > std::numeric_limits<std::uint32_t>::max())
    throw core::Error(data->paths.front() + ": " + core::format_count(data->num_rows()) +
                      " rows are too many; at most " + core::format_count(std::numeric_limits<std::uint32_t>::max()) +
                      " are read");
  SampleSpec spec;
  spec.input_shape = {learned.encoding->width()};
  spec.num_classes = static_cast<std::int64_t>(learned.class_names.size());
  spec.targets = data->classes.empty() ? Targets::values : Targets::labels;
  spec.class_names = learned.class_names;
  spec.labels = learned.labels;
  ColumnMap map = map_columns(*data, *learned.encoding);
  spec.table = learned.encoding;
  return std::make_unique<Table>(data, std::vector<std::uint32_t>(rows.begin(), rows.end()), std::move(map),
                                 classes_of(*data, rows, learned.class_names), std::move(spec));
}

/// Returns the kinds of columns that the config states.
std::map<std::string, ColumnKind> stated_kinds(const TableConfig& config) {
  std::map<std::string, ColumnKind> kinds;
  for (const std::string& name : config.numerical_columns) kinds[name] = ColumnKind::number;
  for (const std::string& name : config.categorical_columns) kinds[name] = ColumnKind::category;
  for (const std::string& name : config.date_columns) kinds[name] = ColumnKind::date;
  return kinds;
}

/// Returns the columns that the config states.
TableColumns stated_columns(const TableConfig& config, const LoaderOptions& options) {
  return {.features = config.features,
          .label = config.label,
          .label_type = config.label_type,
          .kinds = stated_kinds(config),
          .class_names = options.trained != nullptr ? options.trained->class_names : config.class_names};
}

TableData read_set(const TableConfig& config, const std::vector<std::string>& patterns, std::string_view key,
                   TableColumns columns, const LoaderOptions& options) {
  const std::vector<std::filesystem::path> files =
      expand_files(patterns, {{".csv", ".tsv", ".tab", ".parquet", ".pq"}}, key);
  TableData data = read_tables(files, {.config = config, .tell = options.tell}, std::move(columns));
  for (const std::string& column : data.index_columns)
    if (options.tell)
      options.tell(std::string(key) + ": column '" + column +
                   "' is left out: it is the index of a pandas.DataFrame (dataset.features may name it)");
  return data;
}

/// The rows of the training files, divided by use.
struct DividedRows {
  std::vector<std::size_t> train;
  std::vector<std::size_t> eval;
  std::vector<std::size_t> test;
};

DividedRows divided_rows(const TableConfig& config, const TableData& data, const std::optional<FoldConfig>& fold) {
  const Split split{.eval_fraction = config.eval_fraction,
                    .test_fraction = config.test_fraction,
                    .seed = static_cast<std::uint64_t>(config.split_seed),
                    .fold = fold};
  const std::vector<std::size_t> rows = usable_rows(data, config.missing_values);
  if (!split.divides()) return {.train = rows, .eval = {}, .test = {}};
  std::vector<std::uint64_t> hashes;
  std::vector<std::int64_t> labels;
  for (const std::size_t row : rows) {
    hashes.push_back(data.hashes[row]);
    if (!data.classes.empty()) labels.push_back(data.classes[row]);
  }
  const DividedSamples parts = divide(hashes, labels, split, "row");
  const auto chosen = [&](const std::vector<std::int64_t>& places) {
    std::vector<std::size_t> part;
    for (const std::int64_t place : places) part.push_back(rows[static_cast<std::size_t>(place)]);
    return part;
  };
  return {.train = chosen(parts.train), .eval = chosen(parts.eval), .test = chosen(parts.test)};
}

void tell_dropped(std::size_t num_used, const TableData& data, const char* set, const LoaderOptions& options) {
  if (num_used == data.num_rows() || !options.tell) return;
  options.tell(std::string(set) + ": " + core::format_count(data.num_rows() - num_used) + " of " +
               core::format_count(data.num_rows()) +
               " rows are left out, since a value is missing (dataset.missing_values: drop)");
}

}  // namespace

Sources build(const TableConfig& config, const LoaderOptions& options) {
  const std::shared_ptr<const TableEncoding> known_encoding =
      options.trained != nullptr ? options.trained->table : nullptr;
  TableColumns columns = stated_columns(config, options);
  if (known_encoding != nullptr) {
    columns.has_header = known_encoding->has_header(config.label);
    const bool divides = config.eval_fraction > 0 || config.test_fraction > 0 || options.fold;
    if (!divides) columns.features.clear();  // rows are divided by the content of all columns
    for (const ColumnEncoding& column : known_encoding->columns) {
      columns.kinds[column.name] = column.kind;
      columns.has_decimal_comma = columns.has_decimal_comma || column.has_decimal_comma;
      if (!divides) columns.features.push_back(column.name);
    }
  }
  const auto shared =
      std::make_shared<const TableData>(read_set(config, config.train, "dataset.train", std::move(columns), options));
  const TableData& data = *shared;
  const auto [train, eval, test] = divided_rows(config, data, options.fold);
  tell_dropped(train.size() + eval.size() + test.size(), data, "dataset.train", options);
  const Learned learned{.encoding = known_encoding != nullptr ? known_encoding
                                                              : std::make_shared<const TableEncoding>(
                                                                    learn_encoding(data, train, config, options.tell)),
                        .class_names = class_names(config, data, options),
                        .labels = label_standardization(config, data, train, options)};
  const auto read_other = [&](const std::vector<std::string>& files, const char* key) {
    TableColumns trained = stated_columns(config, options);
    trained.features = data.features;
    trained.label = data.label;
    trained.kinds.clear();
    for (std::size_t i = 0; i < data.num_features(); ++i) trained.kinds[data.features[i]] = data.kinds[i];
    trained.has_decimal_comma = data.has_decimal_comma;
    trained.has_header = data.has_header;
    const auto other = std::make_shared<const TableData>(read_set(config, files, key, std::move(trained), options));
    const std::vector<std::size_t> used = usable_rows(*other, config.missing_values);
    tell_dropped(used.size(), *other, key, options);
    return make_source(other, used, learned);
  };
  Sources sources;
  sources.train = make_source(shared, train, learned);
  if (!eval.empty()) sources.eval = make_source(shared, eval, learned);
  if (!test.empty()) sources.test = make_source(shared, test, learned);
  if (!config.eval.empty()) sources.eval = read_other(config.eval, "dataset.eval");
  if (!config.test.empty() && options.evaluated == EvaluatedSet::test)
    sources.test = read_other(config.test, "dataset.test");
  return sources;
}

void read_first_rows(const TableConfig& config, Phase phase, std::int64_t num_rows) {
  const bool trains = phase == Phase::training;
  std::vector<std::filesystem::path> files = expand_files(
      trains ? config.train : config.eval, {{".csv", ".tsv", ".tab", ".parquet", ".pq"}}, trains ? "train" : "eval");
  const TableData data =
      read_tables(std::span(files).first(1), {.config = config, .most_rows = num_rows}, stated_columns(config, {}));
  if (config.missing_values == MissingValues::error) usable_rows(data, config.missing_values);
  if (config.class_names.empty()) return;
  std::vector<std::size_t> labelled;
  for (std::size_t row = 0; row < data.classes.size(); ++row)
    if (data.classes[row] >= 0) labelled.push_back(row);
  classes_of(data, labelled, config.class_names);
}

}  // namespace trainctl::dataset

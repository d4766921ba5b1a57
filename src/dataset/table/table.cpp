// Rows of a table as samples: float [F] and a class or a value. All rows are held in memory, scaled.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/files/file_list.h"
#include "dataset/image/transform/transform.h"
#include "dataset/inputs.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"
#include "dataset/table/table_data.h"

namespace trainctl::dataset {
namespace {

/// The figures of the training rows that scale all rows.
struct FeatureFacts {
  std::vector<double> mean;   // of the values that are there
  std::vector<double> scale;  // 1 / standard deviation; 1 where all are equal
};

FeatureFacts model_info_of(const TableData& data, const std::vector<std::size_t>& rows) {
  const std::size_t width = data.num_features();
  std::vector<double> sum(width);
  std::vector<double> squares(width);
  std::vector<double> count(width);
  const auto value = [&](std::size_t row, std::size_t f) { return static_cast<double>(data.values[row * width + f]); };
  const auto each = [&](const auto& use) {
    for (const std::size_t row : rows)
      for (std::size_t f = 0; f < width; ++f)
        if (!std::isnan(value(row, f))) use(f, value(row, f));
  };
  each([&](std::size_t f, double v) { sum[f] += v, count[f] += 1; });
  FeatureFacts facts;
  for (std::size_t f = 0; f < width; ++f) {
    if (count[f] == 0)
      throw core::Error("column '" + data.features[f] + "' of " + data.paths.front() + " has no value in any row")
          .hint("leave it out of dataset.features");
    facts.mean.push_back(sum[f] / count[f]);
  }
  each([&](std::size_t f, double v) { squares[f] += (v - facts.mean[f]) * (v - facts.mean[f]); });
  for (std::size_t f = 0; f < width; ++f) {
    const double deviation = std::sqrt(squares[f] / count[f]);
    facts.scale.push_back(deviation > 1e-12 * std::abs(facts.mean[f]) && deviation > 0 ? 1 / deviation : 1);
  }
  return facts;
}

class Table final : public RawSource {
 public:
  Table(std::vector<float> values, std::vector<std::int64_t> targets, SampleSpec spec)
      : values_(std::move(values)), targets_(std::move(targets)), spec_(std::move(spec)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(targets_.size()); }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t width() const { return spec_.input_shape[0]; }
  /// Returns the bytes of a sample, float [F].
  std::int64_t sample_bytes() const override { return width() * static_cast<std::int64_t>(sizeof(float)); }
  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    std::memcpy(sample, values_.data() + index * width(), static_cast<std::size_t>(sample_bytes()));
    return targets_[static_cast<std::size_t>(index)];
  }
  std::string fingerprint() const override {
    return core::checksum("table " + core::checksum(std::as_bytes(std::span<const float>(values_))) +
                          core::checksum(std::as_bytes(std::span<const std::int64_t>(targets_))));
  }
  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override;

 private:
  std::vector<float> values_;          // [N, F]
  std::vector<std::int64_t> targets_;  // classes, or the bits of doubles
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
  return std::make_unique<TableWriter>(*this);
}

/// Returns the rows that remain after the policy on missing values.
std::vector<std::size_t> usable_rows(const TableData& data, MissingValues missing) {
  std::vector<std::size_t> rows;
  const std::size_t width = data.num_features();
  for (std::size_t row = 0; row < data.num_rows(); ++row) {
    const bool labelled = data.classes.empty() ? !std::isnan(data.targets[row]) : data.classes[row] >= 0;
    const auto begin = data.values.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto empty =
        std::find_if(begin, begin + static_cast<std::ptrdiff_t>(width), [](float v) { return std::isnan(v); });
    const bool whole = empty == begin + static_cast<std::ptrdiff_t>(width);
    if (missing != MissingValues::drop && !labelled)
      throw core::Error(data.place(row) + ": the label is missing")
          .hint("dataset.missing_values: drop leaves such rows out");
    if (missing == MissingValues::error && !whole)
      throw core::Error(data.place(row) + ": column '" + data.features[static_cast<std::size_t>(empty - begin)] +
                        "' is missing")
          .hint("dataset.missing_values: drop leaves such rows out, mean takes the column's mean");
    if (labelled && (whole || missing == MissingValues::mean)) rows.push_back(row);
  }
  if (rows.empty())
    throw core::Error(data.paths.front() + ": every row misses something").hint("set dataset.missing_values: mean");
  return rows;
}

std::vector<std::string> class_names(const TableConfig& config, const TableData& data) {
  if (config.label_type == LabelType::value || !config.class_names.empty()) return config.class_names;
  std::vector<std::string> names = data.label_names;
  const auto number_of = [](const std::string& name) {
    double value = std::nan("");
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), value);
    return problem == std::errc() && end == name.data() + name.size() ? value : std::nan("");
  };
  if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return std::isnan(number_of(name)); }))
    std::sort(names.begin(), names.end(),
              [&](const std::string& a, const std::string& b) { return number_of(a) < number_of(b); });
  else
    std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::int64_t> targets_of(const TableData& data, const std::vector<std::size_t>& rows,
                                     const std::vector<std::string>& names) {
  std::vector<std::int64_t> numbers;  // of data.label_names
  for (const std::string& name : data.label_names)
    numbers.push_back(std::find(names.begin(), names.end(), name) - names.begin());
  std::vector<std::int64_t> targets;
  for (const std::size_t row : rows) {
    if (data.classes.empty()) {
      targets.push_back(std::bit_cast<std::int64_t>(data.targets[row]));
      continue;
    }
    const auto name = static_cast<std::size_t>(data.classes[row]);
    if (numbers[name] == static_cast<std::int64_t>(names.size()))
      throw core::Error(data.place(row) + ": the label '" + data.label_names[name] +
                        "' is none of the classes: " + core::list_words(names, "or"))
          .hint("dataset.class_names lists them; without it, they are those of the training rows");
    targets.push_back(numbers[name]);
  }
  return targets;
}

std::unique_ptr<Source> make_source(const TableData& data, const std::vector<std::size_t>& rows,
                                    const FeatureFacts& facts, const std::vector<std::string>& names,
                                    FeatureScaling scaling) {
  const std::size_t width = data.num_features();
  std::vector<float> values;
  values.reserve(rows.size() * width);
  for (const std::size_t row : rows)
    for (std::size_t f = 0; f < width; ++f) {
      const float stored = data.values[row * width + f];
      const double value = std::isnan(stored) ? facts.mean[f] : static_cast<double>(stored);
      values.push_back(
          static_cast<float>(scaling == FeatureScaling::none ? value : (value - facts.mean[f]) * facts.scale[f]));
    }
  SampleSpec spec;
  spec.input_shape = {static_cast<std::int64_t>(width)};
  spec.num_classes = static_cast<std::int64_t>(names.size());
  spec.targets = data.classes.empty() ? Targets::values : Targets::labels;
  spec.class_names = names;
  return std::make_unique<Table>(std::move(values), targets_of(data, rows, names), std::move(spec));
}

TableData read_set(const TableConfig& config, const std::vector<std::string>& patterns, std::string_view key) {
  const std::vector<std::filesystem::path> files =
      expand_files(patterns, {{".csv", ".tsv", ".tab", ".parquet", ".pq"}}, key);
  return read_tables(files, config.format, config.header_lines,
                     {.features = config.features, .label = config.label, .label_type = config.label_type});
}

/// The rows of the training files, divided by use.
struct DividedRows {
  std::vector<std::size_t> train;
  std::vector<std::size_t> eval;
};

DividedRows divided_rows(const TableConfig& config, const TableData& data) {
  DividedRows rows{.train = usable_rows(data, config.missing_values), .eval = {}};
  if (!config.eval.empty() || config.eval_fraction == 0) return rows;
  const Split split{.eval_fraction = config.eval_fraction, .seed = static_cast<std::uint64_t>(config.split_seed)};
  const auto kept = std::stable_partition(rows.train.begin(), rows.train.end(), [&](std::size_t row) {
    return !split.keeps_for_evaluation(data.hashes[row]);
  });
  rows.eval.assign(kept, rows.train.end());
  rows.train.erase(kept, rows.train.end());
  if (rows.train.empty() || rows.eval.empty())
    throw core::Error("dataset.eval_fraction leaves no row for " +
                      std::string(rows.train.empty() ? "training" : "evaluation"));
  return rows;
}

}  // namespace

TableScaling table_scaling(const TableConfig& config) {
  const TableData data = read_set(config, config.train, "dataset.train");
  FeatureFacts facts = model_info_of(data, divided_rows(config, data).train);
  return {.features = data.features, .mean = std::move(facts.mean), .scale = std::move(facts.scale)};
}

Sources build(const TableConfig& config, const LoaderOptions& options) {
  const auto tell_dropped = [&](std::size_t num_used, const TableData& of, const char* set) {
    if (num_used < of.num_rows() && options.tell)
      options.tell(std::string(set) + ": " + core::format_count(of.num_rows() - num_used) + " of " +
                   core::format_count(of.num_rows()) +
                   " rows are left out, since a value is missing (dataset.missing_values: drop)");
  };
  const TableData data = read_set(config, config.train, "dataset.train");
  const auto [train, eval] = divided_rows(config, data);
  tell_dropped(train.size() + eval.size(), data, "dataset.train");
  const FeatureFacts facts = model_info_of(data, train);
  const std::vector<std::string> names = class_names(config, data);
  Sources sources;
  sources.train = make_source(data, train, facts, names, config.feature_scaling);
  if (!eval.empty()) sources.eval = make_source(data, eval, facts, names, config.feature_scaling);
  if (!config.eval.empty()) {
    const TableData held_out = read_set(config, config.eval, "dataset.eval");
    if (held_out.features != data.features)
      throw core::Error(held_out.paths.front() + " has other columns than " + data.paths.front());
    const std::vector<std::size_t> used = usable_rows(held_out, config.missing_values);
    tell_dropped(used.size(), held_out, "dataset.eval");
    sources.eval = make_source(held_out, used, facts, names, config.feature_scaling);
  }
  return sources;
}

}  // namespace trainctl::dataset

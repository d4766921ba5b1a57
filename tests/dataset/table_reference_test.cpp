// Tables as pandas reads them: generated files of every separator, decimal sign, encoding, quoting and missing value.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "dataset/table/table_data.h"
#include "support/python.h"

namespace trainctl::dataset::table_reference_test {

using namespace trainctl;
using namespace trainctl::dataset;
using namespace trainctl::testing;

namespace {

using Json = nlohmann::json;

TableConfig config_of(const Json& one, const std::string& file) {
  TableConfig config{.train = {file}, .label = one.at("label").get<std::string>()};
  const Json& known = one.at("known");
  if (known.contains("separator")) config.separator = known["separator"].get<std::string>();
  if (known.contains("encoding")) config.encoding = known["encoding"].get<std::string>();
  if (known.contains("header_lines")) config.header_lines = known["header_lines"].get<std::int64_t>();
  if (known.contains("decimal")) config.decimal = known["decimal"] == "comma" ? DecimalSign::comma : DecimalSign::point;
  return config;
}

/// Returns how a cell differs from what pandas read; "" if it doesn't.
std::string difference(const TableData& data, std::size_t row, std::size_t column, const Json& right) {
  const double value = data.values[row * data.num_features() + column];
  if (data.kinds[column] == ColumnKind::category) {
    const std::string& text = data.categories[column][static_cast<std::size_t>(value)];
    return right == text ? "" : "'" + text + "' for " + right.dump();
  }
  if (right.is_null()) return std::isnan(value) ? "" : "a value for none";
  const double tolerance = data.kinds[column] == ColumnKind::date ? 1e-9 : 0;
  return right.is_number() && std::abs(value - right.get<double>()) <= tolerance
             ? ""
             : std::to_string(value) + " for " + right.dump();
}

/// Returns how a table differs from what pandas read; "" if it doesn't.
std::string difference(const TableData& data, const Json& one) {
  const Json& columns = one.at("columns");
  if (columns.size() != data.num_features() + 1) return "another number of columns";
  std::size_t feature = 0;
  for (const Json& column : columns) {
    const std::string name = column.at("name").get<std::string>();
    const Json& values = column.at("values");
    if (values.size() != data.num_rows())
      return std::to_string(data.num_rows()) + " rows for " + std::to_string(values.size());
    if (name == data.label) {
      for (std::size_t row = 0; row < data.num_rows(); ++row)
        if (values[row] != data.label_names.at(static_cast<std::size_t>(data.classes[row]))) return "another label";
      continue;
    }
    if (name != data.features[feature]) return "column " + data.features[feature] + " for " + name;
    if (column.at("kind") != name_of(data.kinds[feature]))
      return name + " as " + name_of(data.kinds[feature]) + " for " + column.at("kind").dump();
    for (std::size_t row = 0; row < data.num_rows(); ++row)
      if (const std::string wrong = difference(data, row, feature, values[row]); !wrong.empty())
        return name + ", row " + std::to_string(row + 1) + ": " + wrong;
    ++feature;
  }
  return "";
}

struct Outcome {
  int equal = 0;
  int refused_by_both = 0;
  std::vector<std::string> refused_here_alone{};  // the reasons
};

/// Reads the tables of a file of tests/reference/csv_tables.py. A table without columns there must be refused.
Outcome compare_tables(const std::filesystem::path& cases) {
  Outcome outcome;
  for (const Json& one : Json::parse(core::read_file(cases))) {
    const std::string file = one.at("file").get<std::string>();
    const TableConfig config = config_of(one, file);
    INFO(file << "\n" << core::read_file(file).substr(0, 2000) << "\n" << one.at("known"));
    TableColumns columns{.features = {}, .label = config.label};
    if (one.contains("features")) columns.features = one["features"].get<std::vector<std::string>>();
    std::optional<TableData> data;
    std::string reason;
    try {
      data = read_tables(std::vector<std::filesystem::path>{file}, {.config = config}, columns);
    } catch (const core::Error& error) {
      reason = error.what();
    }
    if (!one.contains("columns")) {
      CHECK_FALSE(data.has_value());
      ++outcome.refused_by_both;
    } else if (data) {
      CHECK(difference(*data, one) == "");
      ++outcome.equal;
    } else {
      outcome.refused_here_alone.push_back(reason);
    }
  }
  return outcome;
}

}  // namespace

TEST_CASE("a table's cells are what pandas reads, or are refused", "[dataset][reference]") {
  const TemporaryDirectory directory;
  const int num_files = 2000;
  run_reference("csv_tables.py", {"made", directory.path().string(), std::to_string(num_files), "1"});
  const std::vector<std::string> refused = compare_tables(directory / "cases.json").refused_here_alone;
  for (const std::string& reason : refused) WARN(reason);
  CHECK(refused.size() < num_files / 20);
}

TEST_CASE("tables of conformance corpora are what pandas and pyarrow read, or are refused", "[dataset][reference]") {
  const std::string part = GENERATE("csv", "parquet");
  const std::filesystem::path arrow(TRAINCTL_BINARY_DIR "/lib/libtrainctl_parquet.so");
  if (part == "parquet" && !std::filesystem::exists(arrow)) skip("no Arrow");
  const TemporaryDirectory directory;
  run_reference("csv_tables.py", {part, directory.path().string()});
  const Outcome outcome = compare_tables(directory / "cases.json");
  std::string reasons;
  for (const std::string& reason : outcome.refused_here_alone) reasons += "\n  " + reason;
  WARN(part << ": " << outcome.equal << " equal, " << outcome.refused_by_both << " refused by both, "
            << outcome.refused_here_alone.size() << " refused here alone:" << reasons);
  CHECK(outcome.equal > 40);
}

}  // namespace trainctl::dataset::table_reference_test

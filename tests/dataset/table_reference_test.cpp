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

}  // namespace

TEST_CASE("a table's cells are what pandas reads, or are refused", "[dataset][reference]") {
  const TemporaryDirectory directory;
  const int num_files = 2000;
  run_reference("csv_tables.py", {directory.path().string(), std::to_string(num_files), "1"});
  int refused = 0;
  for (const Json& one : Json::parse(core::read_file(directory / "cases.json"))) {
    const std::string file = (directory / one.at("file").get<std::string>()).string();
    const TableConfig config = config_of(one, file);
    INFO(file << "\n" << core::read_file(file) << "\n" << one.at("known"));
    try {
      const TableData data = read_tables(std::vector<std::filesystem::path>{file}, {.config = config},
                                         {.features = {}, .label = config.label});
      const std::string wrong = difference(data, one);
      CHECK(wrong == "");
    } catch (const core::Error& error) {
      ++refused;
      WARN(error.what());
    }
  }
  CHECK(refused < num_files / 20);
}

}  // namespace trainctl::dataset::table_reference_test

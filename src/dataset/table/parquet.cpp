#include "dataset/table/parquet.h"

#include <algorithm>
#include <stdexcept>

#include "dataset/files/parquet_file.h"

namespace trainctl::dataset {
namespace {

/// Ends the reading of a file.
struct LastRowRead {};

ColumnKind kind_of(ParquetType type) {
  switch (type) {
    case ParquetType::number:
      return ColumnKind::number;
    case ParquetType::text:
      return ColumnKind::category;
    case ParquetType::date:
      return ColumnKind::date;
  }
  throw std::logic_error("unknown type of a Parquet column");
}

bool is_named(const std::string& name, const TableColumns& columns) {
  return name == columns.label || columns.kinds.contains(name) ||
         std::find(columns.features.begin(), columns.features.end(), name) != columns.features.end();
}

}  // namespace

void read_parquet(const std::filesystem::path& file, std::int64_t most_rows, TableBuilder& builder) {
  const auto choose = [&](const std::vector<ParquetColumn>& columns) {
    std::vector<std::string> names;
    for (const ParquetColumn& column : columns) names.push_back(column.name);
    names = unique_names(std::move(names));
    // The table's columns lack the index of a pandas.DataFrame, unless the user names it.
    std::vector<int> places;
    std::vector<std::string> header;
    std::vector<std::optional<ColumnKind>> kinds;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].is_index && !is_named(names[i], builder.columns())) {
        builder.leave_out_index(names[i]);
        continue;
      }
      places.push_back(static_cast<int>(i));
      header.push_back(names[i]);
      kinds.emplace_back(kind_of(columns[i].type));
    }
    const TableBuilder::Layout layout = builder.begin_file(file.string(), header, '.', kinds);
    std::vector<int> chosen;
    for (const std::size_t feature : layout.features) chosen.push_back(places[feature]);
    chosen.push_back(places[layout.label]);
    return chosen;
  };
  const auto use = [&](const ParquetRow& row) {
    builder.add_typed(row);
    if (row.number >= most_rows) throw LastRowRead{};
  };
  try {
    read_parquet_file(file, choose, use);
  } catch (const LastRowRead&) {
  }
}

}  // namespace trainctl::dataset

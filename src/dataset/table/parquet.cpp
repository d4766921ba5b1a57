#include "dataset/table/parquet.h"

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

}  // namespace

void read_parquet(const std::filesystem::path& file, std::int64_t most_rows, TableBuilder& builder) {
  const auto choose = [&](const std::vector<ParquetColumn>& columns) {
    std::vector<std::string> names;
    std::vector<std::optional<ColumnKind>> kinds;
    for (const ParquetColumn& column : columns) {
      names.push_back(column.name);
      kinds.push_back(kind_of(column.type));
    }
    const TableBuilder::Layout layout = builder.begin_file(file.string(), unique_names(names), '.', kinds);
    std::vector<int> chosen(layout.features.begin(), layout.features.end());
    chosen.push_back(static_cast<int>(layout.label));
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

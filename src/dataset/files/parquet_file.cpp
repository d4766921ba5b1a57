#include "dataset/files/parquet_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "runtime/plugin.h"

namespace trainctl::dataset {
namespace {

/// Marks the columns that hold the index of a pandas.DataFrame. An index of consecutive numbers is no column. Source:
/// https://pandas.pydata.org/docs/development/developer.html, index_columns.
std::vector<ParquetColumn> with_index(std::vector<ParquetColumn> columns, const std::string& pandas) {
  const auto metadata = core::parse_json_or_discard(pandas);
  if (!metadata.is_object()) return columns;
  const auto index = metadata.find("index_columns");
  if (index == metadata.end() || !index->is_array()) return columns;
  for (ParquetColumn& column : columns)
    column.is_index = std::find(index->begin(), index->end(), column.name) != index->end();
  return columns;
}

}  // namespace

void read_parquet_file(const std::filesystem::path& file,
                       const std::function<std::vector<int>(const std::vector<ParquetColumn>& columns)>& choose,
                       const std::function<void(const ParquetRow& row)>& use) {
  const core::RegularFile regular(file);  // refuses a named pipe, for whose writer Arrow would wait
  const runtime::Plugin plugin = runtime::open_plugin(kParquetLibrary);
  auto* const reader = reinterpret_cast<ReadParquetFunction*>(plugin.symbol(kReadParquetSymbol));
  if (reader == nullptr)
    throw core::Error("cannot read " + file.string() + " by Apache Arrow: " +
                      (plugin.why_not.empty() ? "trainctl's Parquet library is of another version" : plugin.why_not))
        .hint(
            "install the wheel with its extra 'parquet', or build again with libparquet-dev or pyarrow "
            "(scripts/setup.sh --tests); or convert the file to CSV");
  const ParquetRequest request{.path = file.string(),
                               .choose = [&](const std::vector<ParquetColumn>& columns,
                                             const std::string& pandas) { return choose(with_index(columns, pandas)); },
                               .use = use};
  std::string wrong;
  reader(request, wrong);
  if (!wrong.empty()) throw core::Error(file.string() + ": " + wrong);
}

}  // namespace trainctl::dataset

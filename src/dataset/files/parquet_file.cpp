#include "dataset/files/parquet_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/utf8.h"
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

/// Refuses names of columns that aren't UTF-8.
void check_names(const std::vector<ParquetColumn>& columns, const std::string& file) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (!core::valid_utf8(columns[i].name))
      throw core::Error(file + ": the name of column " + std::to_string(i + 1) + ", '" +
                        core::replace_invalid(columns[i].name) + "', is not UTF-8")
          .hint("write the file again with a name of UTF-8, which Parquet asks for");
}

/// Refuses texts that aren't UTF-8. `names`: of the row's columns.
void check_texts(const ParquetRow& row, const std::vector<std::string>& names, const std::string& file) {
  for (std::size_t i = 0; i < row.texts.size(); ++i)
    if (const std::size_t wrong = core::valid_prefix(row.texts[i]); wrong < row.texts[i].size())
      throw core::Error(file + ":" + std::to_string(row.number) + ": column '" + names[i] + "': byte " +
                        std::to_string(wrong + 1) + " of the text is not UTF-8")
          .hint(
              "write the file again with texts of UTF-8, which Parquet asks for; kinds that read texts have "
              "encoding_errors: replace");
}

}  // namespace

void read_parquet_file(const std::filesystem::path& file,
                       const std::function<std::vector<int>(const std::vector<ParquetColumn>& columns)>& choose,
                       const std::function<void(const ParquetRow& row)>& use, EncodingErrors invalid) {
  const core::RegularFile regular(file);  // refuses a named pipe, for whose writer Arrow would wait
  const runtime::Plugin plugin = runtime::open_plugin(kParquetLibrary);
  auto* const reader = reinterpret_cast<ReadParquetFunction*>(plugin.symbol(kReadParquetSymbol));
  if (reader == nullptr)
    throw core::Error("cannot read " + file.string() + " by Apache Arrow: " +
                      (plugin.why_not.empty() ? "trainctl's Parquet library is of another version" : plugin.why_not))
        .hint(
            "install the wheel with its extra 'parquet', or build again with libparquet-dev or pyarrow "
            "(scripts/setup.sh --tests); or convert the file to CSV");
  std::vector<std::string> names;  // of the columns that are read
  const auto choose_named = [&](const std::vector<ParquetColumn>& columns, const std::string& pandas) {
    check_names(columns, file.string());
    std::vector<int> chosen = choose(with_index(columns, pandas));
    for (const int column : chosen) names.push_back(columns[static_cast<std::size_t>(column)].name);
    return chosen;
  };
  const auto use_checked = [&](const ParquetRow& row) {
    if (invalid == EncodingErrors::strict) check_texts(row, names, file.string());
    use(row);
  };
  const ParquetRequest request{.path = file.string(), .choose = choose_named, .use = use_checked};
  std::string wrong;
  reader(request, wrong);
  if (!wrong.empty()) throw core::Error(file.string() + ": " + wrong);
}

}  // namespace trainctl::dataset

#include "dataset/files/parquet_file.h"

#include "core/error.h"
#include "core/file.h"
#include "runtime/plugin.h"

namespace trainctl::dataset {

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
  const ParquetRequest request{.path = file.string(), .choose = choose, .use = use};
  std::string wrong;
  reader(request, wrong);
  if (!wrong.empty()) throw core::Error(file.string() + ": " + wrong);
}

}  // namespace trainctl::dataset

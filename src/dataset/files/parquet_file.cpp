#include "dataset/files/parquet_file.h"

#include <dlfcn.h>

#include "core/error.h"
#include "core/file.h"
#include "machine/installation.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// Returns the directory of this code: that of the engine library, or of the executable.
fs::path own_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&read_parquet_file), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::error_code ignored;
  return fs::absolute(info.dli_fname, ignored).parent_path();
}

ReadParquetFunction* find_reader(const fs::path& file) {
  const fs::path here = own_directory();
  std::string why = "this build of trainctl has no Apache Arrow, which reads Parquet";
  for (const fs::path& directory : {here, machine::library_directory(here / "program")}) {
    if (!fs::exists(directory / kParquetLibrary)) continue;
    void* const library = ::dlopen((directory / kParquetLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why = ::dlerror();
      continue;
    }
    if (void* const reader = ::dlsym(library, kReadParquetSymbol))
      return reinterpret_cast<ReadParquetFunction*>(reader);
  }
  throw core::Error("cannot read " + file.string() + ": " + why)
      .hint(
          "install the wheel with its extra 'parquet', or build again with libparquet-dev or pyarrow "
          "(scripts/setup.sh --tests); or convert the file to CSV");
}

}  // namespace

void read_parquet_file(const fs::path& file,
                       const std::function<std::vector<int>(const std::vector<ParquetColumn>& columns)>& choose,
                       const std::function<void(const ParquetRow& row)>& use) {
  const core::RegularFile regular(file);  // refuses a named pipe, for whose writer Arrow would wait
  ReadParquetFunction* const reader = find_reader(file);
  const ParquetRequest request{.path = file.string(), .choose = choose, .use = use};
  std::string wrong;
  reader(request, wrong);
  if (!wrong.empty()) throw core::Error(file.string() + ": " + wrong).hint("is it a Parquet file, and whole?");
}

}  // namespace trainctl::dataset

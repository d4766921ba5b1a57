#include "dataset/container/parquet.h"

#include "core/error.h"

namespace trainctl {

void read_parquet(const std::filesystem::path& file, TableBuilder&) {
  throw Error("cannot read " + file.string() + ": this build of trainctl has no Apache Arrow, which reads Parquet")
      .hint(
          "install libarrow and libparquet (or `pip install pyarrow` into .deps/python) and build again, or convert "
          "the file to CSV");
}

}  // namespace trainctl

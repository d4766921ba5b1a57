// Parquet files, read by Apache Arrow's C++ library where this build has it.
#pragma once

#include <filesystem>

#include "dataset/table/table_data.h"

namespace trainctl::dataset {

/// Adds the file's rows. An Error where the file is damaged, a column isn't of numbers, or there is no Arrow.
void read_parquet(const std::filesystem::path& file, TableBuilder& builder);

}  // namespace trainctl::dataset

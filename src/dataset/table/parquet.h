// Parquet files, read by Apache Arrow's C++ library where this build has it.
#pragma once

#include <filesystem>

#include "dataset/table/table_data.h"

namespace trainctl::dataset {

/// Adds the file's rows. Throws core::Error if the file is damaged, a column is of a type that has no
/// encoding, or this build has no Arrow.
void read_parquet(const std::filesystem::path& file, TableBuilder& builder);

}  // namespace trainctl::dataset

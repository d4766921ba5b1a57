// Parquet files as rows of a table.
#pragma once

#include <cstdint>
#include <filesystem>

#include "dataset/table/table_data.h"

namespace trainctl::dataset {

/// Adds the file's first rows. Throws as read_parquet_file() does.
void read_parquet(const std::filesystem::path& file, std::int64_t most_rows, TableBuilder& builder);

}  // namespace trainctl::dataset

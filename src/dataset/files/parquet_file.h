// Parquet files, read by Apache Arrow's C++ library where this build has it.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "dataset/files/parquet/plugin.h"
#include "dataset/text_config.h"

namespace trainctl::dataset {

/// Reads the rows of a file. `choose` returns the numbers of the columns that are read; `use` gets each row.
/// What they throw ends the reading. Throws core::Error if the file is damaged, a column is of a type that has no
/// encoding, or this build has no Arrow. Texts that aren't UTF-8 are an Error, too, or reach `use` as they are if
/// `invalid` is `replace`.
void read_parquet_file(const std::filesystem::path& file,
                       const std::function<std::vector<int>(const std::vector<ParquetColumn>& columns)>& choose,
                       const std::function<void(const ParquetRow& row)>& use,
                       EncodingErrors invalid = EncodingErrors::strict);

}  // namespace trainctl::dataset

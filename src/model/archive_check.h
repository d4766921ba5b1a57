// Whether a zip archive is whole: LibTorch's reader compares no checksums.
#pragma once

#include <filesystem>

namespace trainctl::model {

/// Reads every entry and compares its CRC-32. Damage, and names that lead out of the archive, are Errors.
void check_archive(const std::filesystem::path& path);

}  // namespace trainctl::model

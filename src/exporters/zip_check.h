// Whether a zip archive is whole: LibTorch's reader compares no checksums.
#pragma once

#include <cstddef>
#include <span>

namespace trainctl::exporters {

/// Entries' bytes against their CRC-32. Damage, and names that lead out of the archive, are Errors. Entries beyond 4
/// GiB aren't read.
void check_archive(std::span<const std::byte> bytes);

}  // namespace trainctl::exporters

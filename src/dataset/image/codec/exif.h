// The one fact that we want of a JPEG's Exif block.
#pragma once

#include <cstddef>
#include <span>

namespace trainctl::dataset {

/// Tag 0x0112, 1 to 8; 1 where there is none, or nonsense.
int exif_orientation(std::span<const std::byte> jpeg);

}  // namespace trainctl::dataset

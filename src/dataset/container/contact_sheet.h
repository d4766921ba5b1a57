// A set on one page of HTML that needs nothing beside it.
#pragma once

#include <string>

#include "dataset/dataset.h"
#include "dataset/sharding.h"

namespace trainctl {

/// The figures, a bar for each class, and thumbnails of images spread over the source.
std::string contact_sheet(const StatReport& report, const Source& source);

}  // namespace trainctl

// A set on one page of HTML that needs nothing beside it.
#pragma once

#include <string>

#include "data_tools/sharding.h"
#include "dataset/dataset.h"

namespace trainctl::data_tools {

/// The figures, a bar for each class, and thumbnails of images spread over the source.
std::string contact_sheet(const StatReport& report, const dataset::Source& source);

}  // namespace trainctl::data_tools

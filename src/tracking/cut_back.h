// Files of records, a line each, of a run that goes back to an earlier step.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trainctl::tracking {

/// Drops what a kill left torn and the records of steps after `first_step`: they will come again.
void cut_back(const std::filesystem::path& path, std::int64_t first_step);

}  // namespace trainctl::tracking

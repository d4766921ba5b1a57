// Findings about the processor, the kernel and the container, made without LibTorch.
#pragma once

#include <filesystem>
#include <vector>

#include "finding.h"

namespace trainctl::cli {

Finding find_cpu();
Finding find_cores();
Finding find_memory();
Finding find_shared_memory();

/// Measures the write rate of `run_directory`, or of the nearest directory above it that exists.
Finding find_run_directory(const std::filesystem::path& run_directory);

}  // namespace trainctl::cli

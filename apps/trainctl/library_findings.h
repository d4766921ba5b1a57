// Findings about LibTorch and the other libraries that the engine loads. Each is made in a child process, so that a
// library that is missing, crashes or hangs cannot stop the command.
#pragma once

#include <vector>

#include "finding.h"

namespace trainctl::cli {

/// Returns the findings with the keys kernels, libtorch, libgomp, gpu, cuda, nccl, mpi and arrow.
std::vector<Finding> find_libraries();

}  // namespace trainctl::cli

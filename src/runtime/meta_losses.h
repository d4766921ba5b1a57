// Losses that LibTorch has no meta kernel for in C++. Part of runtime/meta_operators.h.
#pragma once

#include <torch/library.h>

namespace trainctl::runtime {

/// Adds them to a library of meta kernels.
void add_meta_losses(torch::Library& aten);

}  // namespace trainctl::runtime

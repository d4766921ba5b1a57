// The kind of CPU under this process, for what is measured once and kept in a directory that machines may share.
#pragma once

#include <string>

namespace trainctl::runtime {

/// The model, its instruction sets, and what the environment holds LibTorch's libraries to. Two processes with the same
/// text run the same kernels.
std::string cpu_kind();

}  // namespace trainctl::runtime

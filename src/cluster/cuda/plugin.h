// NCCL, as libtrainctl_cuda.so offers it.
#pragma once

#include "cluster/backends.h"

namespace trainctl {

/// `c10d::Backend* trainctl_nccl_backend(const BackendRequest&)`: one reference, which is the caller's.
inline constexpr const char* kNcclBackendSymbol = "trainctl_nccl_backend";
using NcclBackendFunction = c10d::Backend*(const BackendRequest& request);

}  // namespace trainctl

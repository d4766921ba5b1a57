// NCCL, as libtrainctl_cuda.so offers it.
#pragma once

#include "comm/backend/backends.h"

namespace trainctl::comm {

/// `c10d::Backend* trainctl_nccl_backend(const BackendRequest&)`: one reference, which is the caller's.
inline constexpr const char* kNcclBackendSymbol = "trainctl_nccl_backend";
using NcclBackendFunction = c10d::Backend*(const BackendRequest& request);

}  // namespace trainctl::comm

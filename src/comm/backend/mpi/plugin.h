// What the MPI library (libtrainctl_mpi.so, loaded where distributed.backend asks for MPI, built where there is one)
// offers.
#pragma once

#include "comm/backend/backends.h"

namespace trainctl::comm {

inline constexpr const char* kMpiLibrary = "libtrainctl_mpi.so";
/// `c10d::Backend* trainctl_mpi_backend(const BackendRequest&)`: one reference, which is the caller's.
inline constexpr const char* kMpiBackendSymbol = "trainctl_mpi_backend";
using MpiBackendFunction = c10d::Backend*(const BackendRequest& request);

}  // namespace trainctl::comm

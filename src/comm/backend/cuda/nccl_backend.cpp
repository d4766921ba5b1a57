// NCCL, for tensors on GPUs. NCCL's watchdog only observes. Our heartbeat monitor ends a collective that takes too
// long, since it knows what the other ranks do and can name the absent one.
#include <c10/cuda/CUDAGuard.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/backend/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::comm::NcclBackendFunction trainctl_nccl_backend;

c10d::Backend* trainctl_nccl_backend(const trainctl::comm::BackendRequest& request) {
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);
  if (!request.interface.empty()) ::setenv("NCCL_SOCKET_IFNAME", request.interface.c_str(), /*overwrite=*/0);
  const c10::cuda::CUDAGuard guard(request.device);
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = request.timeout;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size(), options);
  backend->setBoundDeviceId(request.device);
  return backend.release();
}

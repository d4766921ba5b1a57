// NCCL, for tensors on GPUs. NCCL's watchdog only observes. Our heartbeat monitor ends a collective that takes too
// long, since it knows what the other ranks do and can name the absent one.
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "comm/backend/cuda/plugin.h"

extern "C" __attribute__((visibility("default"))) trainctl::comm::NcclBackendFunction trainctl_nccl_backend;

c10d::Backend* trainctl_nccl_backend(const trainctl::comm::BackendRequest& request) {
  const c10::cuda::CUDAGuard guard(request.device);
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  // Our monitor's limit, which says who is absent, must pass first.
  options->timeout = request.timeout + std::chrono::hours(24);
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.size(), options);
  backend->setBoundDeviceId(request.device);
  return backend.release();
}

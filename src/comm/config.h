// What may be said of how processes talk; no LibTorch.
#pragma once

namespace trainctl::comm {

/// What carries collectives; auto: NCCL between GPUs, Gloo between CPUs.
enum class Backend { auto_, gloo, nccl, mpi };

}  // namespace trainctl::comm

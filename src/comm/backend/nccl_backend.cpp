#include "comm/backend/backends.h"
#include "comm/backend/cuda/plugin.h"
#include "core/error.h"
#include "runtime/device.h"

namespace trainctl::comm {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BackendRequest& request) {
  auto* const make = reinterpret_cast<NcclBackendFunction*>(runtime::cuda_symbol(kNcclBackendSymbol));
  if (make == nullptr || !request.device.is_cuda())
    throw core::Error("NCCL needs a GPU, its driver, and a build with CUDA")
        .hint("distributed.backend: auto takes Gloo where the device is a CPU");
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(request));
}

}  // namespace trainctl::comm

#include <cstdlib>
#include <string_view>

#include "comm/backend/backends.h"
#include "comm/backend/cuda/plugin.h"
#include "core/error.h"
#include "runtime/device.h"

namespace trainctl::comm {

// The names are declared in torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp.
std::vector<std::pair<std::string, std::string>> nccl_environment(const std::string& interface) {
  std::vector<std::pair<std::string, std::string>> variables = {
      // A failed collective doesn't end the process: our monitor first finds the rank that is the cause.
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
      // No thread that aborts the process eight minutes after any rank's error, in this attempt or in an earlier one.
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0"},
      // A device's error reaches the thread that computes, which reports it; the watchdog would abort the process.
      {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"}};
  // NCCL takes a name for a prefix, unless it begins with "=".
  if (!interface.empty()) variables.emplace_back("NCCL_SOCKET_IFNAME", "=" + interface);
  return variables;
}

void set_nccl_environment(const std::string& interface) {
  for (const char* name : {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"})
    if (const char* value = std::getenv(name); value != nullptr && std::string_view(value) != "0")
      throw core::Error(std::string(name) + "=" + value + " is set: NCCL would not tell when a collective has ended")
          .hint(std::string("unset ") + name + "; distributed.timeout_s limits the wait");
  for (const auto& [name, value] : nccl_environment(interface)) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BackendRequest& request) {
  auto* const make = reinterpret_cast<NcclBackendFunction*>(runtime::cuda_symbol(kNcclBackendSymbol));
  if (make == nullptr || !request.device.is_cuda())
    throw core::Error("NCCL needs a GPU, its driver, and a build with CUDA")
        .hint("distributed.backend: auto takes Gloo where the device is a CPU");
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(request));
}

}  // namespace trainctl::comm

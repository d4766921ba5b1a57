// Gloo, for tensors in host memory: https://github.com/pytorch/gloo
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/backend/backends.h"
#include "comm/backend/c10d_group.h"
#include "core/error.h"

namespace trainctl::comm {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request) {
  using c10d::ProcessGroupGloo;
  const std::string where = request.interface.empty() ? "address " + request.address : "interface " + request.interface;
  try {
    const auto options = ProcessGroupGloo::Options::create(request.timeout);
    options->devices.push_back(request.interface.empty()
                                   ? ProcessGroupGloo::createDeviceForHostname(request.address)
                                   : ProcessGroupGloo::createDeviceForInterface(request.interface));
    return c10::make_intrusive<ProcessGroupGloo>(request.store, request.rank, request.size(), options);
  } catch (const std::exception& error) {
    throw core::Error("rank " + std::to_string(request.members[static_cast<std::size_t>(request.rank)]) +
                      " cannot connect to the others by " + where + ": " + core::as_error(error).what())
        .hint(
            "distributed.network_interface names the network interface that all nodes are reached by (see `ip "
            "address`)");
  }
}

}  // namespace trainctl::comm

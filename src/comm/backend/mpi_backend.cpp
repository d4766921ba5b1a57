#include "comm/backend/backends.h"
#include "comm/backend/mpi/plugin.h"
#include "core/error.h"
#include "runtime/plugin.h"

namespace trainctl::comm {

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const BackendRequest& request) {
  const runtime::Plugin plugin = runtime::open_plugin(kMpiLibrary);
  auto* const make = reinterpret_cast<MpiBackendFunction*>(plugin.symbol(kMpiBackendSymbol));
  if (make == nullptr)
    throw core::Error("cannot use MPI: " +
                      (plugin.why_not.empty() ? "trainctl's MPI library is of another version" : plugin.why_not))
        .hint("build where MPI is installed (libopenmpi-dev), or set distributed.backend: gloo");
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(request));
}

}  // namespace trainctl::comm

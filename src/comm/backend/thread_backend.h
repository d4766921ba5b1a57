// A c10d backend whose members are threads of this process: the member that comes last to a collective computes it for
// all. Sums run in the order of the members, so they are the same on every run; 16-bit numbers are summed in fp32.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace trainctl::comm {

/// One for each member, in their order. A member whose backend is destroyed has left: what the others wait for fails.
std::vector<c10::intrusive_ptr<c10d::Backend>> make_thread_backends(int num_members, std::chrono::milliseconds timeout);

}  // namespace trainctl::comm

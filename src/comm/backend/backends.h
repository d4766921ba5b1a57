// The engines of communication, by name: Gloo, NCCL and MPI.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace trainctl::comm {

struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  // of this group alone
  int rank = 0;                           // in the group
  std::vector<int> members;               // their ranks among all
  std::chrono::milliseconds timeout{0};
  c10::Device device = c10::kCPU;
  std::string interface;  // "" where `address` says it
  std::string address;    // of this host, as its peers reach it

  int size() const { return static_cast<int>(members.size()); }
};

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request);
/// An Error where this build, or this machine, has none.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BackendRequest& request);
c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const BackendRequest& request);

}  // namespace trainctl::comm

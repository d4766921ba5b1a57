// The engines of communication, by name: Gloo, NCCL and MPI.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
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
/// Environment variables (name, value) under which LibTorch's part of NCCL leaves the end of a job to our monitor.
/// `interface`: the network interface, or "".
std::vector<std::pair<std::string, std::string>> nccl_environment(const std::string& interface);
/// Sets those that the user did not set. Call it while the process has one thread: another may read the environment.
/// An Error where the user's environment makes NCCL's work end without a report.
void set_nccl_environment(const std::string& interface);
c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const BackendRequest& request);

}  // namespace trainctl::comm

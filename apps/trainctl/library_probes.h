// Loads of one library each, in a child process.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainctl::cli {

struct Probe {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  std::string problem;  // why the library does not work; empty if it does
  std::string hint;     // the line that gets what is missing; empty if unknown
};

/// Loads the engine with LibTorch; values libtorch and libgomp (paths), kernels, why_no_gpu (null if a GPU can be used)
/// and gpu_is_expected.
Probe probe_engine();

/// Asks the GPU driver; values driver, cuda and devices.
Probe probe_driver();

/// Loads trainctl's CUDA library; values cuda and nccl (versions).
Probe probe_cuda();

/// Loads trainctl's MPI library; value version.
Probe probe_mpi();

/// Loads trainctl's Parquet library; value version.
Probe probe_arrow();

/// Whether the machine has an NVIDIA display device on its PCI bus.
bool has_nvidia_device();

}  // namespace trainctl::cli

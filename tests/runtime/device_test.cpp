#include "runtime/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <dlfcn.h>
#include <sched.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "core/error.h"
#include "core/file.h"
#include "support/environment_variable.h"
#include "support/gpu.h"
#include "support/skip.h"
#include "support/temporary_directory.h"

namespace trainctl::runtime {
namespace {

TEST_CASE("the CPU opens with the threads asked for", "[runtime]") {
  const c10::Device device = open_device({.kind = DeviceKind::cpu, .num_threads = 1});
  CHECK(device.is_cpu());
  CHECK(at::get_num_threads() == 1);
  open_device({.kind = DeviceKind::cpu});
  CHECK(at::get_num_threads() == available_cores());
  synchronize(device);
}

TEST_CASE("a process takes the GPU of its local rank, or the one that it is shown", "[runtime]") {
  const LocalRank last{.rank = 3, .world_size = 4};
  {
    const testing::EnvironmentVariable visible("CUDA_VISIBLE_DEVICES", nullptr);
    CHECK(gpu_of(last, 4).index() == 3);
    CHECK_THROWS_WITH(gpu_of(last, 1), Catch::Contains("local rank 3 has no GPU of its own: this machine has 1"));
  }
  const testing::EnvironmentVariable visible("CUDA_VISIBLE_DEVICES", "3");
  CHECK(gpu_of(last, 1).index() == 0);
  CHECK_THROWS(gpu_of(last, 2));
}

TEST_CASE("threads that outnumber the cores are warned of, and refused where they are many", "[runtime]") {
  const auto with_threads = [](std::int64_t threads) {
    return DeviceConfig{.kind = DeviceKind::cpu, .num_threads = threads};
  };
  CHECK(device_warning({.kind = DeviceKind::cpu}).empty());
  CHECK(device_warning(with_threads(available_cores())).empty());
  CHECK_THAT(device_warning(with_threads(available_cores() + 1)),
             Catch::Contains("device.num_threads") && Catch::Contains(" threads share "));
  CHECK_THROWS_WITH(open_device(with_threads(16 * available_cores() + 1)), Catch::Contains("device.num_threads"));
}

TEST_CASE("threads follow the process's affinity", "[runtime]") {
  cpu_set_t all;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(available_cores() == 1);
  REQUIRE(::sched_setaffinity(0, sizeof all, &all) == 0);
  CHECK(available_cores() <= CPU_COUNT(&all));
}

TEST_CASE("determinism is set and unset", "[runtime]") {
  open_device({.kind = DeviceKind::cpu, .deterministic = true});
  CHECK(at::globalContext().deterministicAlgorithms());
  open_device({.kind = DeviceKind::cpu});
  CHECK_FALSE(at::globalContext().deterministicAlgorithms());
}

TEST_CASE("a GPU is described, and its memory is known", "[runtime][gpu]") {
  testing::need_gpu();
  const c10::Device device = open_device({});
  CHECK(describe(device).find("GiB") != std::string::npos);
  CHECK(device_memory(device).current >= 0);
  synchronize(device);
}

TEST_CASE("without a usable GPU auto takes the CPU and cuda is an error with a hint", "[runtime]") {
  const std::optional<GpuProblem> problem = gpu_problem();
  if (!problem) testing::skip("this machine has a GPU");
  CHECK(num_gpus() == 0);
  CHECK(open_device({}).is_cpu());
  CHECK(device_warning({}).empty() == !problem->is_fault);
  CHECK(device_warning({.kind = DeviceKind::cpu}).empty());
  try {
    open_device({.kind = DeviceKind::cuda});
    FAIL("opened a GPU that isn't there");
  } catch (const core::Error& error) {
    CHECK(error.text().find("no usable GPU: " + problem->text) != std::string::npos);
    CHECK(error.text().find("--set device.kind=cpu") != std::string::npos);
  }
}

TEST_CASE("a device that cannot compute is an error with the option that takes the CPU", "[runtime]") {
  try_device(c10::kCPU);
  try {
    try_device({c10::kXPU, 0});  // which this LibTorch has no operators for
    FAIL("computed on a device that isn't there");
  } catch (const core::Error& error) {
    CHECK(error.text().find("xpu:0 cannot compute: ") != std::string::npos);
    CHECK(error.text().find("opening the device") != std::string::npos);
    CHECK(error.text().find("--set device.kind=cpu") != std::string::npos);
  }
}

/// Runs a case of this program where an empty library is the GPU's driver. Returns what the program printed.
std::string output_with_empty_driver(const testing::TemporaryDirectory& directory, const std::string& name,
                                     const std::string& environment = "") {
  const std::string driver = (directory / "libcuda.so.1").string();
  if (std::system(("echo | cc -shared -x c -o " + driver + " - 2>&1").c_str()) != 0)
    testing::skip("no C compiler makes the library that stands in for a driver");
  const std::string output = (directory / "output").string();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "LD_LIBRARY_PATH=" + directory.path().string() + ":$LD_LIBRARY_PATH " + environment +
                              " '" + self + "' '" + name + "' > " + output + " 2>&1";
  const int status = std::system(command.c_str());
  const std::string text = core::read_file(output);
  INFO(text);
  CHECK(status == 0);
  return text;
}

TEST_CASE("[in a new process] LibTorch knows its CUDA library after a backward pass", "[.]") {
  at::sum(at::ones({2}).set_requires_grad(true)).backward();
  if (load_cuda()) CHECK(at::detail::getCUDAHooks().isBuilt());
  const std::optional<GpuProblem> problem = gpu_problem();
  std::cout << "problem: " << (problem ? problem->text : "none")
            << (problem && problem->is_fault ? "; a fault\n" : "\n");
}

TEST_CASE("with a driver, test programs load LibTorch's CUDA library before anything asks for it", "[runtime]") {
  const testing::TemporaryDirectory directory;
  const std::string output = output_with_empty_driver(directory, "*LibTorch knows its CUDA library*");
  INFO(output);
  for (const char* missing : {"problem: cannot load", "problem: this build has no"})
    if (output.find(missing) != std::string::npos) testing::skip("LibTorch's CUDA library does not load here");
  CHECK(output.find("; a fault") != std::string::npos);
  CHECK(output.find("LibTorch looked for a GPU before") == std::string::npos);
}

TEST_CASE("a GPU that the user hides is no fault", "[runtime]") {
  const testing::TemporaryDirectory directory;
  for (const std::string hidden : {"''", "-1"}) {
    const std::string output =
        output_with_empty_driver(directory, "*LibTorch knows its CUDA library*", "CUDA_VISIBLE_DEVICES=" + hidden);
    INFO(output);
    CHECK(output.find("CUDA_VISIBLE_DEVICES hides every GPU") != std::string::npos);
    CHECK(output.find("; a fault") == std::string::npos);
  }
}

TEST_CASE("the CUDA library loads where there is no driver", "[runtime]") {
  const std::filesystem::path library = std::filesystem::path(TRAINCTL_BINARY_DIR) / "lib/libtrainctl_cuda.so";
  if (!std::filesystem::exists(library)) testing::skip("built without CUDA");
  void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  INFO((handle ? "" : ::dlerror()));
  REQUIRE(handle != nullptr);
  CHECK(::dlsym(handle, "trainctl_cuda_device_name") != nullptr);
  CHECK(::dlsym(handle, "trainctl_cuda_mark_spans") != nullptr);
}

TEST_CASE("a device is described and its memory known", "[runtime]") {
  CHECK(describe(c10::kCPU).find(" core") != std::string::npos);
  install_host_allocator(HostMemory::cached);
  reset_device_peak(c10::kCPU);
  CHECK(device_memory(c10::kCPU).peak == host_memory().peak);
}

}  // namespace
}  // namespace trainctl::runtime

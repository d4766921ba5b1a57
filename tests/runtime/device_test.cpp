#include "runtime/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <sched.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"
#include "support/skip.h"

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
  const c10::Device device = open_device({});
  if (device.is_cpu()) testing::skip("no GPU here");
  CHECK(describe(device).find("GiB") != std::string::npos);
  CHECK(device_memory(device).current >= 0);
  synchronize(device);
}

TEST_CASE("without a usable GPU auto takes the CPU and cuda is an error with a hint", "[runtime]") {
  if (!open_device({}).is_cpu()) testing::skip("this machine has a GPU");
  try {
    open_device({.kind = DeviceKind::cuda});
    FAIL("opened a GPU that isn't there");
  } catch (const core::Error& error) {
    CHECK(error.text().find("no usable GPU") != std::string::npos);
    CHECK(error.text().find("device.kind: auto") != std::string::npos);
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

#include "library_probes.h"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <regex>

#include "core/error.h"
#include "core/json.h"
#include "core/text.h"
#include "engine_call.h"
#include "load_engine.h"
#include "machine/child.h"
#include "machine/kernel_files.h"
#include "machine/libraries.h"

namespace trainctl::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// Time limit that suffices for a cold network disk or an emulated processor.
constexpr std::chrono::seconds kLimit{60};

/// Runs `print_values`, which prints one JSON object, in a child process.
Probe run_probe(const std::function<int()>& print_values) {
  const auto work = [&] {
    try {
      return print_values();
    } catch (const core::Error& error) {
      std::printf("%s", Json{{"error", error.text()}}.dump().c_str());
      return 0;
    }
  };
  const machine::ChildOutcome outcome = machine::run_in_child(work, kLimit);
  Probe probe{.problem = outcome.problem};
  if (!probe.problem.empty()) return probe;
  probe.values = core::parse_json_or_discard<Json>(outcome.output);
  if (!probe.values.is_object()) return {.problem = "the probe printed no JSON"};
  if (!probe.values.contains("error")) return probe;
  const std::string text = probe.values["error"];
  const auto hint = text.find("\n  try: ");
  return {.problem = text.substr(0, hint), .hint = hint == std::string::npos ? "" : text.substr(hint + 8)};
}

void* open_or_throw(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const std::string problem = ::dlerror();
  throw core::Error("cannot load " + path + ": " + problem)
      .hint(machine::line_that_gets(machine::missing_library(problem)));
}

/// Returns a function of `library` or of the libraries that it needs; null if none has it.
template <class Function>
Function* function_in(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Loads a library of trainctl and prints what `describe` finds in it.
Probe probe_own_library(const char* file, const std::function<Json(void* library)>& describe) {
  const fs::path path = library_directory() / file;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {.problem = std::string("this build has no ") + file};
  return run_probe([&] {
    load_libtorch_named_by_environment();
    std::printf("%s", describe(open_or_throw(path.string())).dump().c_str());
    return 0;
  });
}

/// Returns "13.0" of 13000, as CUDA counts its versions.
std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// Returns "2.28.9" of 22809, as NCCL counts its versions.
std::string nccl_version(int number) {
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

std::string kernel_driver_version() {
  const std::string text = machine::text_or_empty("/proc/driver/nvidia/version");
  std::smatch match;
  return std::regex_search(text, match, std::regex("Kernel Module.*?[ ]([0-9]+[.][0-9.]+)")) ? match[1].str()
                                                                                             : "of unknown version";
}

/// Functions of libcuda.so.1 that name the devices.
struct Driver {
  explicit Driver(void* library)
      : init(function_in<int(unsigned)>(library, "cuInit")),
        version(function_in<int(int*)>(library, "cuDriverGetVersion")),
        count(function_in<int(int*)>(library, "cuDeviceGetCount")),
        device(function_in<int(int*, int)>(library, "cuDeviceGet")),
        name(function_in<int(char*, int, int)>(library, "cuDeviceGetName")),
        memory(function_in<int(std::size_t*, int)>(library, "cuDeviceTotalMem_v2")) {}
  bool is_whole() const { return init && version && count && device && name && memory; }

  int (*init)(unsigned);
  int (*version)(int*);
  int (*count)(int*);
  int (*device)(int*, int);
  int (*name)(char*, int, int);
  int (*memory)(std::size_t*, int);
};

int print_driver() {
  const Driver driver(open_or_throw("libcuda.so.1"));
  if (!driver.is_whole()) throw core::Error("libcuda.so.1 lacks a function that every driver has");
  if (const int code = driver.init(0); code != 0) throw core::Error("cuInit failed with " + std::to_string(code));
  int version = 0;
  int count = 0;
  driver.version(&version);
  driver.count(&count);
  Json devices = Json::array();
  for (int i = 0; i < count; ++i) {
    int handle = 0;
    std::array<char, 256> name{};
    std::size_t bytes = 0;
    driver.device(&handle, i);
    driver.name(name.data(), static_cast<int>(name.size()) - 1, handle);
    driver.memory(&bytes, handle);
    devices.push_back({{"name", name.data()}, {"memory_bytes", bytes}});
  }
  const Json values = {{"driver", kernel_driver_version()}, {"cuda", cuda_version(version)}, {"devices", devices}};
  std::printf("%s", values.dump().c_str());
  return 0;
}

Json describe_cuda(void* library) {
  int cuda = 0;
  int nccl = 0;
  if (const auto read = function_in<int(int*)>(library, "cudaRuntimeGetVersion")) read(&cuda);
  if (const auto read = function_in<int(int*)>(library, "ncclGetVersion")) read(&nccl);
  return {{"cuda", cuda > 0 ? Json(cuda_version(cuda)) : Json()},
          {"nccl", nccl > 0 ? Json(nccl_version(nccl)) : Json()}};
}

Json describe_mpi(void* library) {
  std::array<char, 8193> text{};  // MPICH's maximum; Open MPI writes at most 256
  int length = 0;
  if (const auto read = function_in<int(char*, int*)>(library, "MPI_Get_library_version")) read(text.data(), &length);
  const std::string version = text.data();
  return {{"version", version.substr(0, version.find_first_of(",\n"))}};
}

/// Reads Arrow's version: the file name ends with 100 times the major version, and the minor version.
Json describe_arrow(void*) {
  const std::string path = machine::loaded_library("libarrow.so");
  const auto number = machine::leading_number(path.substr(path.rfind('.') + 1));
  const int version = static_cast<int>(number.value_or(0));
  return {{"version", version > 0 ? Json("Arrow " + std::to_string(version / 100) + "." + std::to_string(version % 100))
                                  : Json("Arrow of unknown version")}};
}

}  // namespace

Probe probe_engine() {
  return run_probe([] { return call_engine({.command = DoctorOptions{}}); });
}

Probe probe_driver() {
  return run_probe(print_driver);
}

Probe probe_cuda() {
  return probe_own_library("libtrainctl_cuda.so", describe_cuda);
}

Probe probe_mpi() {
  return probe_own_library("libtrainctl_mpi.so", describe_mpi);
}

Probe probe_arrow() {
  return probe_own_library("libtrainctl_parquet.so", describe_arrow);
}

bool has_nvidia_device() {
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/sys/bus/pci/devices", error)) {
    const bool is_nvidia = machine::text_or_empty(device.path() / "vendor").starts_with("0x10de");
    if (is_nvidia && machine::text_or_empty(device.path() / "class").starts_with("0x03")) return true;
  }
  return fs::exists("/dev/nvidia0", error);
}

}  // namespace trainctl::cli

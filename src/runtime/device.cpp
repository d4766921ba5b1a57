#include "runtime/device.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/ones.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "core/units.h"
#include "machine/cpu.h"
#include "machine/libraries.h"
#include "machine/limits.h"
#include "runtime/cuda/plugin.h"
#include "runtime/plugin.h"
#include "runtime/signal_stack.h"

namespace trainctl::runtime {
namespace {

constexpr const char* kCudaLibrary = "libtrainctl_cuda.so";
constexpr const char* kCpuHint =
    "--set device.kind=cpu runs on the CPU; 'trainctl doctor' checks the driver and libraries";

/// Our CUDA library as this process loaded it.
struct CudaLibrary {
  void* handle = nullptr;
  GpuProblem problem;  // why the handle is null
};

/// Returns whether the user hides all GPUs from this process, as CUDA's documentation describes.
bool hides_gpus() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible != nullptr && (*visible == '\0' || std::string_view(visible).starts_with("-1"));
}

void* open_library(const std::filesystem::path& path) {
  return ::dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
}

/// Returns the reason why open_library() has just returned null.
CudaLibrary cannot_load(const std::filesystem::path& path) {
  const char* const reason = ::dlerror();
  return {.problem = {"cannot load " + path.string() + ": " + (reason == nullptr ? "unknown error" : reason), true}};
}

CudaLibrary load_library() {
  // Without the driver, loading libtorch_cuda wastes half a second and 350 MB.
  if (!open_library("libcuda.so.1")) {
    const std::string reason = ::dlerror();
    if (machine::missing_library(reason) == "libcuda.so.1")
      return {.problem = {"no driver (libcuda.so.1) here", false}};
    return {.problem = {"cannot load the driver: " + reason, true}};
  }
  if (hides_gpus()) return {.problem = {"CUDA_VISIBLE_DEVICES hides every GPU", false}};
  // An installed program may find LibTorch elsewhere than at build time. An already loaded library is found by name.
  if (const char* libtorch = std::getenv("TRAINCTL_LIBTORCH")) {
    const std::filesystem::path theirs = std::filesystem::path(libtorch) / "lib" / "libtorch_cuda.so";
    if (!open_library(theirs)) return cannot_load(theirs);
  }
  const std::filesystem::path ours = find_plugin(kCudaLibrary);
  if (ours.empty()) return {.problem = {std::string("this build has no ") + kCudaLibrary, true}};
  void* const handle = open_library(ours);
  if (handle == nullptr) return cannot_load(ours);
  // LibTorch looks for its CUDA library once, at the first call that concerns an accelerator.
  if (!at::detail::getCUDAHooks().isBuilt())
    return {.problem = {"LibTorch looked for a GPU before its CUDA library was loaded", true}};
  return {.handle = handle};
}

/// Returns our CUDA library. A process loads it at most once, hence the static.
const CudaLibrary& cuda_library() {
  static const CudaLibrary library = load_library();
  return library;
}

/// Drops LibTorch's warning that a driver doesn't work, since gpu_problem() returns the cause.
class WarningDropper final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& /*warning*/) override {}
};

/// Returns what LibTorch reports when the loaded libraries find no GPU.
std::string cause_of_no_gpu() {
  std::string cause = "LibTorch counts no GPU";
  try {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  } catch (const c10::Error& error) {
    const std::string text = core::as_error(error).what();
    cause = text.substr(0, text.find(". "));
  }
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    cause += ", and CUDA_VISIBLE_DEVICES is " + std::string(visible);
  return cause;
}

template <class Function>
Function* cuda_function(const char* symbol) {
  return reinterpret_cast<Function*>(cuda_symbol(symbol));
}

/// Limits memory through LibTorch's allocator on a GPU, and through our allocator on the CPU.
void limit_memory(const DeviceConfig& config, c10::Device device) {
  std::optional<std::int64_t> bytes;
  if (config.memory_limit_mib) bytes = *config.memory_limit_mib * core::kMiB;
  if (device.is_cpu()) return limit_host_memory(bytes);
  const auto limit = cuda_function<LimitMemoryFunction>(kLimitMemorySymbol);
  if (bytes && limit == nullptr)
    throw core::Error("device.memory_limit_mib needs trainctl's CUDA library").hint("remove device.memory_limit_mib");
  if (!bytes) return;
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // creates the allocator
  limit(device.index(), *bytes);
}

c10::Device choose_device(DeviceKind kind, LocalRank local) {
  if (kind == DeviceKind::cpu) return c10::kCPU;
  if (num_gpus() > 0) return gpu_of(local, num_gpus());
  if (kind == DeviceKind::auto_) return c10::kCPU;
  throw core::Error("no usable GPU: " + gpu_problem()->text).hint(kCpuHint).during("opening the device");
}

/// Says how many threads share how many cores, and what limits those.
std::string too_many_threads(std::int64_t threads) {
  const std::int64_t cores = available_cores();
  const auto quota = machine::group_cpu_quota();
  const bool is_quota = quota && quota->value < static_cast<double>(machine::cores_in_affinity());
  return "device.num_threads: " + core::format_count(threads) + " threads share " + core::format_count(cores) +
         (cores == 1 ? " core" : " cores") +
         (is_quota ? " (the CPU quota of " + quota->file.string() + ")" : " that this process may use");
}

/// Returns the threads of an operator. With many on a core, each operator waits for all of them to have had their turn:
/// with thousands, a step takes minutes.
std::int64_t num_threads(const DeviceConfig& config, LocalRank local) {
  constexpr std::int64_t kMostOnACore = 16;
  if (const std::int64_t asked = config.num_threads.value.value_or(1); asked > kMostOnACore * available_cores())
    throw core::Error(too_many_threads(asked) + "; expected at most " + core::format_count(kMostOnACore) + " on a core")
        .hint("device.num_threads: auto");
  return config.num_threads.value.value_or(std::max<std::int64_t>(1, available_cores() / local.world_size));
}

/// Sets LibTorch's process-wide options. Replicas call this on their own threads while others may compute already. The
/// first call writes; later calls find the values set and write nothing.
void set_process_options(const DeviceConfig& config) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // The size of the interop pool can be set once per process; trainctl does not use that pool.
  if (at::get_num_interop_threads() != 1) {
    try {
      at::set_num_interop_threads(1);
    } catch (const c10::Error&) {
    }
  }
  if (at::globalContext().deterministicAlgorithms() != config.deterministic)
    at::globalContext().setDeterministicAlgorithms(config.deterministic, /*warn_only=*/false);
}

}  // namespace

c10::Device open_device(const DeviceConfig& config, LocalRank local) {
  const c10::Device device = choose_device(config.kind, local);
  at::set_num_threads(static_cast<int>(num_threads(config, local)));
  use_signal_stacks();
  set_process_options(config);
  if (!device.is_cpu()) {
    // Set this before the first tensor: the allocator ignores later changes.
    if (config.expandable_segments) c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
    if (config.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    at::globalContext().setDeterministicCuDNN(config.deterministic);
    at::globalContext().setBenchmarkCuDNN(!config.deterministic);
    try_device(device);
    if (const auto mark_spans = cuda_function<MarkSpansFunction>(kMarkSpansSymbol)) mark_spans(true);
  }
  limit_memory(config, device);
  return device;
}

c10::Device gpu_of(LocalRank local, std::int64_t num_gpus) {
  // Slurm's --gpus-per-task, and wrappers of a launcher, show each process its own GPU alone.
  if (num_gpus == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) return {c10::kCUDA, 0};
  if (local.rank >= num_gpus)
    throw core::Error("local rank " + std::to_string(local.rank) + " has no GPU of its own: this machine has " +
                      std::to_string(num_gpus))
        .hint("start as many processes on a machine as it has GPUs, or set device.kind: cpu")
        .during("opening the device");
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(local.rank)};
}

void try_device(c10::Device device) {
  if (device.is_cpu()) return;
  try {
    at::accelerator::setDeviceIndex(device.index());
    at::ones({1}, at::TensorOptions(device)).add_(1);
    synchronize(device);
  } catch (const std::exception& error) {
    throw core::Error(device.str() + " cannot compute: " + core::as_error(error).what())
        .hint(kCpuHint)
        .during("opening the device");
  }
}

bool load_cuda() {
  return cuda_library().handle != nullptr;
}

void* cuda_symbol(const char* name) {
  return load_cuda() ? ::dlsym(cuda_library().handle, name) : nullptr;
}

std::optional<GpuProblem> gpu_problem() {
  if (num_gpus() > 0) return std::nullopt;
  return load_cuda() ? GpuProblem{cause_of_no_gpu(), true} : cuda_library().problem;
}

std::string device_warning(const DeviceConfig& config) {
  std::string warning;
  if (config.num_threads.value.value_or(0) > available_cores())
    warning = too_many_threads(*config.num_threads.value) + ", and wait for each other; `auto` takes one for each core";
  if (config.kind != DeviceKind::auto_) return warning;
  const std::optional<GpuProblem> problem = gpu_problem();
  if (!problem || !problem->is_fault) return warning;
  return "no usable GPU: " + problem->text + "; the model runs on the CPU, and device.kind: cpu ends this warning" +
         (warning.empty() ? "" : "; " + warning);
}

std::vector<std::vector<at::Tensor>> by_device(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<at::Tensor>> lists;
  for (const at::Tensor& tensor : tensors) {
    auto list = std::ranges::find_if(
        lists, [&](const std::vector<at::Tensor>& one) { return one.front().device() == tensor.device(); });
    if (list == lists.end()) list = lists.emplace(lists.end());
    list->push_back(tensor);
  }
  return lists;
}

std::int64_t num_gpus() {
  if (!load_cuda()) return 0;
  WarningDropper dropper;
  const c10::WarningUtils::WarningHandlerGuard guard(&dropper);
  return at::globalContext().hasCUDA() ? at::accelerator::deviceCount() : 0;
}

std::int64_t available_cores() {
  return machine::usable_cores();
}

MemoryUse device_memory(c10::Device device) {
  if (device.is_cpu()) return host_memory();
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = at::accelerator::getDeviceStats(device.index());
  return {.current = stats.allocated_bytes[all].current,
          .peak = stats.allocated_bytes[all].peak,
          .reserved = stats.reserved_bytes[all].current};
}

FreeSpace device_free_space(c10::Device device) {
  if (device.is_cpu()) return host_free_space();
  FreeSpace space;
  if (const auto read = cuda_function<FreeSpaceFunction>(kFreeSpaceSymbol)) read(device.index(), space);
  return space;
}

void reset_device_peak(c10::Device device) {
  if (device.is_cpu())
    reset_host_peak();
  else
    at::accelerator::resetPeakStats(device.index());
}

std::size_t device_memory_limit(c10::Device device) {
  return device.is_cpu() ? machine::usable_memory() : at::accelerator::getMemoryInfo(device.index()).second;
}

void synchronize(c10::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

std::string describe(c10::Device device) {
  if (device.is_cpu()) {
    const int threads = at::get_num_threads();
    return machine::cpu_name() + ", " + std::to_string(threads) + (threads == 1 ? " core" : " cores");
  }
  const auto [free_bytes, total_bytes] = at::accelerator::getMemoryInfo(device.index());
  const auto name = cuda_function<DeviceNameFunction>(kDeviceNameSymbol);
  return std::string(name ? name(device.index()) : "GPU") + ", " + core::format_bytes(static_cast<double>(total_bytes));
}

int compute_capability(c10::Device device) {
  const auto capability = cuda_function<CapabilityFunction>(kCapabilitySymbol);
  core::ensure(capability != nullptr, "the CUDA library doesn't know the device");
  return capability(device.index());
}

}  // namespace trainctl::runtime

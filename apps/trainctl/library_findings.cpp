#include "library_findings.h"

#include "core/text.h"
#include "library_probes.h"
#include "load_engine.h"
#include "machine/cpu.h"
#include "machine/libraries.h"
#include "machine/libtorch.h"

namespace trainctl::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* speed_of(bool is_fast) {
  return is_fast ? "multiplied by the CPU" : "emulated, 50-100 times slower than fp32";
}

std::string text_at(const Json& values, const char* key) {
  const auto found = values.find(key);
  return found == values.end() || !found->is_string() ? "" : found->get<std::string>();
}

/// Reports the engine's kernels, and properties that follow from the processor alone.
Finding find_kernels(const Json& engine) {
  const machine::CpuFeatures& onednn = machine::onednn_features();
  Finding finding{.key = "kernels", .subject = "Kernels"};
  Json& values = finding.values;
  values = {{"onednn", machine::onednn_isa(onednn)},
            {"bf16_is_fast", machine::multiplies_bf16(onednn)},
            {"fp16_is_fast", machine::multiplies_fp16(onednn)},
            {"image_resampling", machine::cpu_features().avx2 ? "AVX2" : "plain"}};
  for (const char* key : {"libtorch", "matrix_product", "byte_product", "vectors"})
    values[key] = engine.contains("kernels") ? engine["kernels"].value(key, Json()) : Json();
  finding.text = "oneDNN " + text_at(values, "onednn");
  if (engine.contains("kernels"))
    finding.text += ", LibTorch " + text_at(values, "libtorch") + "\nproducts of floats by " +
                    text_at(values, "matrix_product") + ", of bytes by " + text_at(values, "byte_product") +
                    "\nown vector kernels " + text_at(values, "vectors");
  finding.text += "\nimage resampling " + text_at(values, "image_resampling");
  finding.text += std::string("\nbf16: ") + speed_of(values["bf16_is_fast"].get<bool>());
  finding.text += std::string("\nfp16: ") + speed_of(values["fp16_is_fast"].get<bool>());
  return finding;
}

Finding describe_libtorch(const Probe& engine) {
  const auto libtorch = machine::find_libtorch(library_directory());
  Finding finding{.key = "libtorch", .subject = "LibTorch", .problem = engine.problem, .hint = engine.hint};
  const std::string path = text_at(engine.values, "libtorch");
  finding.values = {{"path", path.empty() && libtorch ? Json((libtorch->root / "lib").string()) : Json(path)},
                    {"version", libtorch ? Json(libtorch->version) : Json()},
                    {"built_with", machine::kBuiltLibtorchVersion},
                    {"named_by", libtorch ? Json(libtorch->named_by) : Json()},
                    {"loads", engine.problem.empty()}};
  if (libtorch)
    finding.text = (libtorch->version.empty() ? "unknown version" : libtorch->version) + ", named by " +
                   libtorch->named_by + "\n" + (path.empty() ? (libtorch->root / "lib").string() : path);
  else
    finding.text = "not found";
  return finding;
}

Finding find_libgomp(const Probe& engine) {
  const std::string path = text_at(engine.values, "libgomp");
  Finding finding{.key = "libgomp", .subject = "libgomp", .text = path.empty() ? "not loaded" : path};
  finding.values = {{"path", path.empty() ? Json() : Json(path)}};
  if (engine.problem.find("libgomp") != std::string::npos) {
    finding.problem = engine.problem;
    finding.hint = engine.hint;
  }
  return finding;
}

std::string gpu_hint(const std::string& problem) {
  const std::string missing = machine::missing_library(problem);
  if (!missing.empty() && !missing.starts_with("libcuda.")) return machine::line_that_gets(missing);
  return "apt-get install nvidia-driver (Debian's non-free section); in a container, docker run --gpus all";
}

/// Describes the driver with its GPUs, and why a run would use none of them. A CUDA library that does not load is a
/// finding of its own.
Finding find_gpu(const Probe& driver, const Probe& cuda, const Probe& engine) {
  Finding finding{.key = "gpu", .subject = "GPU"};
  finding.values = {{"driver", nullptr},
                    {"cuda", nullptr},
                    {"devices", Json::array()},
                    {"why_not", engine.values.value("why_no_gpu", Json())}};
  finding.values.update(driver.values);
  if (driver.problem.empty()) {
    finding.text = "driver " + text_at(driver.values, "driver") + ", CUDA " + text_at(driver.values, "cuda");
    for (const Json& device : driver.values["devices"])
      finding.text += "\n" + text_at(device, "name") + ", " + core::format_bytes(device.value("memory_bytes", 0.0));
  } else {
    finding.text = has_nvidia_device() ? "an NVIDIA device without a driver that works" : "no NVIDIA device";
    if (has_nvidia_device()) finding.problem = driver.problem;
  }
  if (cuda.problem.empty() && engine.values.value("gpu_is_expected", false))
    finding.problem = "a run uses no GPU: " + text_at(engine.values, "why_no_gpu");
  if (!finding.problem.empty()) finding.hint = gpu_hint(finding.problem);
  return finding;
}

/// Library that is loaded only if it is found.
struct OptionalLibrary {
  const char* key;
  const char* subject;
  const char* version_key;
  const char* hint;
};

Finding find_optional(const OptionalLibrary& library, const Probe& probe) {
  const std::string version = text_at(probe.values, library.version_key);
  Finding finding{.key = library.key, .subject = library.subject, .problem = probe.problem};
  finding.values = {{"version", version.empty() ? Json() : Json(version)}, {"loads", probe.problem.empty()}};
  finding.text = probe.problem.empty() ? version : "not available";
  if (!probe.problem.empty()) finding.hint = probe.hint.empty() ? library.hint : probe.hint;
  return finding;
}

Finding without_driver(const OptionalLibrary& library) {
  return {.key = library.key,
          .subject = library.subject,
          .text = "not tried, without a GPU driver",
          .values = {{"version", nullptr}, {"loads", nullptr}}};
}

constexpr const char* kCudaHint =
    "the wheel has kernels for GPUs; a build has them where nvcc is: cmake --preset release";
constexpr OptionalLibrary kCuda{"cuda", "CUDA", "cuda", kCudaHint};
constexpr OptionalLibrary kNccl{"nccl", "NCCL", "nccl", kCudaHint};
constexpr OptionalLibrary kMpi{"mpi", "MPI", "version", "apt-get install libopenmpi-dev openmpi-bin, then build again"};
constexpr OptionalLibrary kArrow{
    "arrow", "Arrow", "version",
    "pip install 'FILE[parquet]' with the wheel; scripts/setup.sh --tests, then build again"};

}  // namespace

std::vector<Finding> find_libraries() {
  const Probe engine = probe_engine();
  const Probe driver = probe_driver();
  const bool has_driver = driver.problem.empty();
  const Probe cuda = has_driver ? probe_cuda() : Probe{};
  std::vector<Finding> findings{find_kernels(engine.values), describe_libtorch(engine), find_libgomp(engine),
                                find_gpu(driver, cuda, engine)};
  for (const OptionalLibrary& library : {kCuda, kNccl})
    findings.push_back(has_driver ? find_optional(library, cuda) : without_driver(library));
  findings.push_back(find_optional(kMpi, probe_mpi()));
  findings.push_back(find_optional(kArrow, probe_arrow()));
  return findings;
}

}  // namespace trainctl::cli

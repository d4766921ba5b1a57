#include <ATen/Version.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "engine.h"
#include "kernels/matrix_product.h"
#include "kernels/vector_math.h"
#include "machine/libraries.h"
#include "quantization/workarounds/int8_gemm.h"
#include "runtime/device.h"

namespace trainctl::engine {
namespace {

struct CountLanes {
  template <class V>
  TRAINCTL_INLINE static std::int64_t run() {
    return V::kLanes;
  }
};

const char* vector_kernels() {
  switch (kernels::vectorized<CountLanes>()) {
    case 16:
      return "AVX-512";
    case 8:
      return "AVX2";
    default:
      return "SSE";
  }
}

}  // namespace

int run_doctor(const cli::EngineCall&) {
  const std::optional<runtime::GpuProblem> gpu = runtime::gpu_problem();
  const nlohmann::ordered_json values = {
      {"libtorch", machine::loaded_library("libtorch_cpu.so").string()},
      {"why_no_gpu", gpu ? nlohmann::ordered_json(gpu->text) : nlohmann::ordered_json()},
      {"gpu_is_expected", gpu && gpu->is_fault},
      {"libgomp", machine::loaded_library("libgomp").string()},
      {"kernels",
       {{"libtorch", at::get_cpu_capability()},
        {"matrix_product", kernels::product_library() == kernels::ProductLibrary::mkl ? "MKL" : "oneDNN"},
        {"byte_product", quantization::Int8Matrix::pays() ? "trainctl (AVX2)" : "LibTorch"},
        {"vectors", vector_kernels()}}}};
  std::printf("%s\n", values.dump().c_str());
  return core::kExitDone;
}

}  // namespace trainctl::engine

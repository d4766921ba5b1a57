#include <ATen/Version.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "engine.h"
#include "kernels/matrix_product.h"
#include "kernels/vector_math.h"
#include "machine/libraries.h"
#include "quantization/workarounds/int8_gemm.h"

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
  const nlohmann::ordered_json values = {
      {"libtorch", machine::loaded_library("libtorch_cpu.so").string()},
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

#include "roofline/device_peaks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "kernels/matrix_product.h"
#include "machine/cpu.h"

namespace trainctl::roofline {
namespace {

constexpr int kRuns = 5;

/// Returns the time of the fastest of a few runs.
template <class Work>
double best_seconds(c10::Device device, const Work& work) {
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) seconds = std::min(seconds, time_run(device, work));
  return seconds;
}

bool is_emulated(c10::Device device, at::ScalarType dtype) {
  if (!device.is_cpu()) return false;
  const machine::CpuFeatures& cpu = machine::onednn_features();
  return (dtype == at::kBFloat16 && !machine::multiplies_bf16(cpu)) ||
         (dtype == at::kHalf && !machine::multiplies_fp16(cpu));
}

double product_flops(std::int64_t size, c10::Device device, at::ScalarType dtype) {
  // GPUs multiply ones an eighth faster than values like those of networks.
  const at::Tensor values = at::arange(size, at::TensorOptions(device)).mul(0.618034).frac().add(0.5).to(dtype);
  const at::Tensor factor = at::outer(values, values);
  const double flops = 2.0 * static_cast<double>(size * size * size);
  return flops / best_seconds(device, [&] { const at::Tensor product = kernels::matrix_product(factor, factor); });
}

}  // namespace

double measured_peak_flops(c10::Device device, at::ScalarType dtype) {
  if (is_emulated(device, dtype)) return 0;
  const at::NoGradGuard no_grad;
  if (!device.is_cpu()) {
    try {
      return product_flops(8192, device, dtype);
    } catch (const c10::OutOfMemoryError&) {
      return product_flops(1024, device, dtype);  // a run may leave no more
    }
  }
  // If a product in cache is slow, as under an emulator, the larger one would take a minute.
  constexpr double kSlow = 2e9;
  const double in_cache = product_flops(192, device, dtype);
  return in_cache < kSlow ? in_cache : product_flops(768, device, dtype);
}

double measured_peak_bandwidth(c10::Device device) {
  const at::NoGradGuard no_grad;
  const std::int64_t size = std::int64_t{device.is_cpu() ? 64 : 1024} << 20;
  const at::Tensor from = at::ones({size}, at::TensorOptions(device).dtype(at::kByte));
  at::Tensor to = at::empty_like(from);
  return 2.0 * static_cast<double>(size) / best_seconds(device, [&] { to.copy_(from); });
}

}  // namespace trainctl::roofline

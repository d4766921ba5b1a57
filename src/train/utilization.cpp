#include "train/utilization.h"

#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>

#include "kernels/matrix_product.h"
#include "runtime/device.h"

namespace trainctl {
namespace {

/// The best of a few products of square matrices.
double measured_peak_flops(c10::Device device, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const std::int64_t size = device.is_cpu() ? 768 : 8192;
  const at::Tensor factor = at::ones({size, size}, at::TensorOptions(device).dtype(dtype));
  const double flops = 2.0 * static_cast<double>(size * size * size);
  double seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    const at::Tensor product = matrix_product(factor, factor);
    synchronize(device);
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return flops / seconds;
}

at::ScalarType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
    case Precision::fp32:
    case Precision::tf32:
      return at::kFloat;
  }
  throw std::logic_error("unknown precision");
}

}  // namespace

Utilization::Utilization(const Run& run)
    : flops_per_sample_(3 * run.model->flops_per_sample()),
      flops_per_token_(0),
      peak_flops_(measured_peak_flops(run.device, dtype_of(run.experiment.amp.mode))),
      num_devices_(static_cast<double>(run.parallel->group().size())) {
  const SampleSpec& spec = run.data.train->spec();
  if (spec.vocab_size > 0) flops_per_token_ = flops_per_sample_ / static_cast<double>(spec.input_shape.at(0));
}

double Utilization::mfu(const Pace::Window& pace) const {
  const double flops =
      flops_per_token_ > 0 ? flops_per_token_ * pace.tokens_per_s : flops_per_sample_ * pace.samples_per_s;
  return flops / (peak_flops_ * num_devices_);
}

}  // namespace trainctl

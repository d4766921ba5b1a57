#include "train/monitor/parameter_histograms.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace trainctl::train {
namespace {

constexpr std::int64_t kNumBins = 64;

tracking::Histogram histogram_of(const at::Tensor& values) {
  const at::Tensor finite = values.masked_select(values.isfinite());
  if (finite.numel() == 0) return {};
  const auto [lowest, highest] = at::aminmax(finite);
  tracking::Histogram histogram{.low = lowest.item<double>(), .high = highest.item<double>(), .counts = {}};
  if (histogram.low == histogram.high) {
    histogram.counts = {finite.numel()};
    return histogram;
  }
  // On the host, whose counts are whole numbers: a device's floats lose some above 2^24.
  const at::Tensor counts =
      at::histc(finite.cpu().to(at::kDouble), kNumBins, histogram.low, histogram.high).to(at::kLong);
  histogram.counts.assign(counts.const_data_ptr<std::int64_t>(), counts.const_data_ptr<std::int64_t>() + kNumBins);
  return histogram;
}

tracking::TensorMeasured measure(std::string name, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kFloat);
  return {.name = std::move(name),
          .norm = at::linalg_vector_norm(values).item<double>(),
          .histogram = histogram_of(values)};
}

}  // namespace

tracking::ParametersMeasured measure_parameters(std::int64_t step,
                                                const std::vector<optimizer::OptimizedParameter>& parameters) {
  const at::NoGradGuard no_grad;
  tracking::ParametersMeasured measured{.step = step, .tensors = {}};
  for (const optimizer::OptimizedParameter& parameter : parameters) {
    measured.tensors.push_back(measure("weight/" + parameter.name, parameter.tensor));
    if (const at::Tensor& gradient = parameter.tensor.grad(); gradient.defined())
      measured.tensors.push_back(measure("gradient/" + parameter.name, gradient));
  }
  return measured;
}

}  // namespace trainctl::train

#include "train/monitor/mfu.h"

#include <stdexcept>

#include "roofline/device_peaks.h"
#include "train/run/initial_weights.h"

namespace trainctl::train {
namespace {

/// Returns the type of matrix products. A type that the device emulates is measured by floats.
at::ScalarType dtype_of(amp::Precision precision) {
  switch (precision) {
    case amp::Precision::bf16:
    case amp::Precision::fp8:  // attention and the logits stay bf16
      return at::kBFloat16;
    case amp::Precision::fp16:
      return at::kHalf;
    case amp::Precision::fp32:
    case amp::Precision::tf32:
      return at::kFloat;
  }
  throw std::logic_error("unknown precision");
}

double peak_of(const Run& run) {
  const double peak = roofline::measured_peak_flops(run.device, dtype_of(run.experiment.amp.mode));
  return peak > 0 ? peak : roofline::measured_peak_flops(run.device, at::kFloat);
}

}  // namespace

Utilization::Utilization(const Run& run) : Utilization(run, peak_of(run)) {}

Utilization::Utilization(const Run& run, double peak_flops)
    : flops_per_sample_(3 * static_cast<double>(sequences_per_sample(run.data.train->spec())) *
                        run.model->flops_per_sample()),
      flops_per_token_(0),
      peak_flops_(peak_flops),
      num_devices_(static_cast<double>(run.mesh->world().size())) {
  const dataset::SampleSpec& spec = run.data.train->spec();
  if (spec.vocab_size > 0) flops_per_token_ = flops_per_sample_ / static_cast<double>(spec.tokens_per_sample());
}

double Utilization::mfu(const Throughput::Window& pace) const {
  const double flops =
      flops_per_token_ > 0 ? flops_per_token_ * pace.tokens_per_s : flops_per_sample_ * pace.samples_per_s;
  return flops / (peak_flops_ * num_devices_);
}

}  // namespace trainctl::train

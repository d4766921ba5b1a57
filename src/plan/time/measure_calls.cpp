#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>

#include "plan/time/device_rates.h"
#include "roofline/device_peaks.h"

namespace trainctl::plan {

double measure_seconds_per_call(c10::Device device) {
  constexpr int kLayers = 64;
  constexpr int kRuns = 12;
  at::Tensor weight = at::ones({8}, device);
  weight.set_requires_grad(true);
  const auto pass = [&] {
    at::Tensor value = weight;
    for (int i = 0; i < kLayers; ++i) value = value.view({2, 4}).add(1).view({8}).mul(0.5);
    torch::autograd::grad({value.sum()}, {weight});
  };
  pass();
  std::int64_t calls = 0;
  {
    roofline::OperationRecorder recorder;
    pass();
    for (const std::int64_t of_pass : recorder.take().num_calls) calls += of_pass;
  }
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) best = std::min(best, roofline::time_run(device, pass));
  return calls == 0 ? 0 : best / static_cast<double>(calls);
}

}  // namespace trainctl::plan

#include "train/profile/layout_probe.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "runtime/device.h"

namespace trainctl::train {
namespace {

constexpr int kRuns = 4;

double best_ms(const profiler::ConvolutionSummary& one, c10::Device device, at::MemoryFormat format,
               kernels::Winograd winograd) {
  const at::TensorOptions options(device);
  const at::Tensor input = at::ones(one.input, options).contiguous(format).requires_grad_(true);
  const at::Tensor weight = at::ones(one.weight, options).contiguous(format).requires_grad_(true);
  const std::vector<std::int64_t> ones{1, 1};
  const std::vector<std::int64_t> no_padding(one.stride.size(), 0);
  const bool by_winograd = winograd == kernels::Winograd::where_it_suits && one.stride == ones && one.padding == ones &&
                           one.dilation == ones && one.groups == 1 && kernels::suits_winograd(input, weight);
  const auto convolve = [&] {
    return by_winograd ? kernels::winograd_convolution(input, weight)
                       : at::convolution(input, weight, std::nullopt, one.stride, one.padding, one.dilation,
                                         /*transposed=*/false, no_padding, one.groups);
  };
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    runtime::synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    const at::Tensor output = convolve();
    torch::autograd::grad({output}, {input, weight}, {output.detach()});
    runtime::synchronize(device);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

std::optional<profiler::LayoutProbe> probe_layout(const std::vector<profiler::ConvolutionSummary>& convolutions,
                                                  c10::Device device, kernels::Winograd winograd) {
  if (convolutions.empty()) return {};
  profiler::LayoutProbe probe;
  for (const profiler::ConvolutionSummary& one : convolutions) {
    probe.contiguous_ms += best_ms(one, device, at::MemoryFormat::Contiguous, winograd);
    probe.channels_last_ms += best_ms(one, device, at::MemoryFormat::ChannelsLast, winograd);
  }
  return probe;
}

}  // namespace trainctl::train

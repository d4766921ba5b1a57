#include "train/profile/layout_probe.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "runtime/device.h"

namespace trainctl::train {
namespace {

constexpr int kRuns = 4;

double best_ms(const profiler::ConvolutionSummary& one, c10::Device device, at::MemoryFormat format) {
  const at::TensorOptions options(device);
  const at::Tensor input = at::ones(one.input, options).contiguous(format);
  const at::Tensor weight = at::ones(one.weight, options).contiguous(format);
  const std::vector<std::int64_t> no_padding(one.stride.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    runtime::synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    const at::Tensor output = at::convolution(input, weight, std::nullopt, one.stride, one.padding, one.dilation,
                                              /*transposed=*/false, no_padding, one.groups);
    at::convolution_backward(output, input, weight, std::nullopt, one.stride, one.padding, one.dilation,
                             /*transposed=*/false, no_padding, one.groups, {true, true, false});
    runtime::synchronize(device);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

std::optional<profiler::LayoutProbe> probe_layout(const std::vector<profiler::ConvolutionSummary>& convolutions,
                                                  c10::Device device) {
  if (convolutions.empty()) return {};
  const at::NoGradGuard no_grad;
  profiler::LayoutProbe probe;
  for (const profiler::ConvolutionSummary& one : convolutions) {
    probe.contiguous_ms += best_ms(one, device, at::MemoryFormat::Contiguous);
    probe.channels_last_ms += best_ms(one, device, at::MemoryFormat::ChannelsLast);
  }
  return probe;
}

}  // namespace trainctl::train

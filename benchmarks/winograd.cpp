// The three convolutions of a 3 × 3 layer's training step, by kernels::winograd_convolution against LibTorch's (oneDNN)
// on channels-last images. Prints a Markdown table of milliseconds, and the largest errors against fp64, relative to
// the largest output. Layers that suits_winograd() turns down are marked.
//   winograd [THREADS]
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/winograd.h"
#include "runtime/memory.h"

namespace {

using namespace trainctl;

/// Lower quartiles of both, in turn for half a second.
template <class First, class Second>
std::pair<double, double> milliseconds(const First& first, const Second& second) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times[2];
  const auto run = [&](const auto& work, std::vector<double>& into) {
    const auto begin = Clock::now();
    work();
    into.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  };
  first(), second();
  for (const auto end = Clock::now() + std::chrono::milliseconds(500); Clock::now() < end || times[0].size() < 5;)
    run(first, times[0]), run(second, times[1]);
  for (auto& one : times) std::sort(one.begin(), one.end());
  return {times[0][times[0].size() / 4], times[1][times[1].size() / 4]};
}

double error(const at::Tensor& tensor, const at::Tensor& exact) {
  return tensor.to(at::kDouble).sub(exact).abs().max().item<double>() / exact.abs().max().item<double>();
}

struct Layer {
  std::int64_t batch, inputs, outputs, side;
};

template <class Work>
void print_row(const Layer& layer, bool is_taken, const char* what, const at::Tensor& exact, const Work& direct,
               const Work& winograd) {
  const auto [direct_ms, winograd_ms] = milliseconds(direct, winograd);
  std::printf("| [%ld, %ld, %ld, %ld] -> %ld%s | %s | %.2f | %.2f | %.2f | %.1e | %.1e |\n", layer.batch, layer.inputs,
              layer.side, layer.side, layer.outputs, is_taken ? "" : " (direct)", what, direct_ms, winograd_ms,
              direct_ms / winograd_ms, error(direct(), exact), error(winograd(), exact));
  std::fflush(stdout);
}

using Convolve = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
at::Tensor directly(const at::Tensor& input, const at::Tensor& weight) {
  return at::conv2d(input, weight, {}, {1, 1}, at::IntArrayRef{1, 1});
}
at::Tensor by_winograd(const at::Tensor& input, const at::Tensor& weight) {
  return kernels::winograd_convolution(input, weight, {});
}

void compare(const Layer& layer) {
  const auto images = [&](std::int64_t channels) {
    return at::randn({layer.batch, channels, layer.side, layer.side}).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor input = images(layer.inputs), gradient = images(layer.outputs);
  const at::Tensor weight =
      at::randn({layer.outputs, layer.inputs, 3, 3}).mul(0.05).contiguous(at::MemoryFormat::ChannelsLast);
  const bool is_taken = kernels::suits_winograd(input, weight);
  const auto forward = [&](Convolve convolve, at::ScalarType type) {
    return [=, x = input.to(type), w = weight.to(type)] {
      const at::NoGradGuard no_grad;
      return convolve(x, w);
    };
  };
  const auto backward = [&](Convolve convolve, bool of_input, at::ScalarType type) {
    const at::Tensor x = input.to(type).detach().set_requires_grad(of_input);
    const at::Tensor w = weight.to(type).detach().set_requires_grad(!of_input);
    return [output = convolve(x, w), dy = gradient.to(type), x, w, of_input] {
      return torch::autograd::grad({output}, {of_input ? x : w}, {dy}, /*retain_graph=*/true)[0];
    };
  };
  using Work = std::function<at::Tensor()>;
  print_row<Work>(layer, is_taken, "forward", forward(directly, at::kDouble)(), forward(directly, at::kFloat),
                  forward(by_winograd, at::kFloat));
  for (const bool of_input : {true, false})
    print_row<Work>(layer, is_taken, of_input ? "input's gradient" : "weight's gradient",
                    backward(directly, of_input, at::kDouble)(), backward(directly, of_input, at::kFloat),
                    backward(by_winograd, of_input, at::kFloat));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) at::set_num_threads(std::atoi(argv[1]));
  runtime::install_host_allocator(runtime::HostMemory::cached);
  std::printf(
      "| images -> channels | of | direct ms | Winograd ms | times faster | error, direct | error, Winograd |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Layer& layer :
       {Layer{32, 64, 64, 56}, Layer{32, 128, 128, 28}, Layer{32, 256, 256, 14}, Layer{32, 512, 512, 7},
        Layer{128, 16, 16, 32}, Layer{128, 32, 32, 16}, Layer{128, 64, 64, 8}, Layer{128, 32, 64, 28},
        Layer{128, 64, 128, 14}, Layer{8, 64, 64, 56}, Layer{8, 512, 512, 7}, Layer{4, 256, 256, 14},
        Layer{16, 160, 160, 16}, Layer{128, 48, 48, 16}})
    compare(layer);
}

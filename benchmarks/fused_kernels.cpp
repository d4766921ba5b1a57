// Our fused operators beside LibTorch's one after another: milliseconds forward and backward, and of an optimizer's
// update, on this CPU or with `--gpu` on the first GPU. Prints a Markdown table. Both sides run in turn.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include "kernels/adam.h"
#include "kernels/float8_linear.h"
#include "kernels/gelu.h"
#include "kernels/norm.h"
#include "kernels/swiglu.h"
#include "runtime/device.h"
#include "runtime/memory.h"

namespace {

namespace kernels = trainctl::kernels;

struct Place {
  c10::Device device;
  at::ScalarType type;  // of activations
  std::int64_t rows;
};

double milliseconds(const Place& place, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  trainctl::runtime::synchronize(place.device);
  const Clock::time_point begin = Clock::now();
  work();
  trainctl::runtime::synchronize(place.device);
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Prints the medians of both, which run in turn.
void compare(const Place& place, const char* name, const std::function<void()>& ours,
             const std::function<void()>& theirs) {
  constexpr int kRounds = 31;
  std::vector<double> of_ours, of_theirs;
  for (int round = -3; round < kRounds; ++round) {
    const double one = milliseconds(place, ours), other = milliseconds(place, theirs);
    if (round < 0) continue;
    of_ours.push_back(one);
    of_theirs.push_back(other);
  }
  const auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    return times[kRounds / 2];
  };
  const double one = median(of_ours), other = median(of_theirs);
  std::printf("| %s | %.3f | %.3f | %.2f |\n", name, one, other, other / one);
}

at::Tensor leaf(std::vector<std::int64_t> shape, const Place& place, at::ScalarType type) {
  return at::randn(shape).to(place.device, type).requires_grad_();
}

void backward(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& cotangents,
              const std::vector<at::Tensor>& inputs) {
  torch::autograd::grad(outputs, inputs, cotangents);
}

void compare_norms(const Place& place, std::int64_t size) {
  const at::Tensor residual = leaf({place.rows, size}, place, at::kFloat);
  const at::Tensor branch = leaf({place.rows, size}, place, place.type);
  const at::Tensor weight = leaf({size}, place, at::kFloat), bias = leaf({size}, place, at::kFloat);
  const at::Tensor of_normed = at::randn({place.rows, size}).to(place.device, place.type);
  const at::Tensor of_sum = at::randn({place.rows, size}).to(place.device);
  for (const bool is_rms : {false, true}) {
    const std::vector<at::Tensor> inputs =
        is_rms ? std::vector{residual, branch, weight} : std::vector{residual, branch, weight, bias};
    const kernels::NormParameters parameters{.weight = weight, .bias = is_rms ? at::Tensor() : bias, .epsilon = 1e-5};
    compare(
        place, is_rms ? "residual + RMSNorm" : "residual + LayerNorm",
        [&] {
          const auto [sum, normed] = kernels::add_norm(residual, branch, parameters, kernels::NormedFor::products);
          backward({normed, sum}, {of_normed, of_sum}, inputs);
        },
        [&] {
          const at::Tensor sum = residual.add(branch);
          const at::Tensor normed =
              is_rms ? at::rms_norm(sum, {size}, weight, 1e-5) : at::layer_norm(sum, {size}, weight, bias, 1e-5);
          backward({normed.to(place.type), sum}, {of_normed, of_sum}, inputs);
        });
  }
}

void compare_activations(const Place& place, std::int64_t size) {
  const at::Tensor input = leaf({place.rows, size}, place, place.type),
                   up = leaf({place.rows, size}, place, place.type);
  const at::Tensor bias = leaf({size}, place, at::kFloat);
  const at::Tensor cotangent = at::randn({place.rows, size}).to(place.device, place.type);
  for (const kernels::Gelu form : {kernels::Gelu::erf, kernels::Gelu::tanh})
    compare(
        place, form == kernels::Gelu::erf ? "bias + GELU" : "bias + GELU by tanh",
        [&] {
          backward({kernels::bias_gelu(input, bias, form)}, {cotangent}, {input, bias});
        },
        [&] {
          const at::Tensor sum = input.add(bias.to(place.type));
          backward({at::gelu(sum, form == kernels::Gelu::erf ? "none" : "tanh")}, {cotangent}, {input, bias});
        });
  compare(
      place, "SwiGLU",
      [&] {
        backward({kernels::swiglu(input, up)}, {cotangent}, {input, up});
      },
      [&] {
        backward({at::silu(input).mul(up)}, {cotangent}, {input, up});
      });
}

void compare_adam(const Place& place, std::int64_t size) {
  constexpr std::size_t kTensors = 48;
  kernels::AdamLists lists;
  for (std::size_t i = 0; i < kTensors; ++i) {
    for (auto* list : {&lists.parameters, &lists.gradients, &lists.averages, &lists.smoothed})
      list->push_back(at::randn({size, size}).to(place.device));
    lists.squares.push_back(at::ones({size, size}).to(place.device));
    lists.steps.push_back(at::ones({}).to(place.device));
  }
  lists.smoothing = 1e-3;
  const at::NoGradGuard no_grad;
  const at::Tensor factor = at::full({}, 0.999).to(place.device);
  const kernels::AdamRule rule{
      .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01, .is_decoupled = true};
  const auto theirs = [&] {
    at::_fused_adamw_(lists.parameters, lists.gradients, lists.averages, lists.squares, {}, lists.steps, rule.lr,
                      rule.beta1, rule.beta2, rule.weight_decay, rule.epsilon, false, false);
  };
  kernels::AdamLists plain = lists;
  plain.smoothed.clear();
  compare(
      place, "AdamW", [&] { kernels::update_by_adam(plain, rule, {}, {}); }, theirs);
  compare(
      place, "clip, AdamW, EMA", [&] { kernels::update_by_adam(lists, rule, factor, {}); },
      [&] {
        at::_foreach_mul_(lists.gradients, factor);
        theirs();
        at::_foreach_lerp_(lists.smoothed, lists.parameters, lists.smoothing);
      });
}

void compare_quantizer(const Place& place, std::int64_t size) {
  const at::Tensor input = at::randn({place.rows, size}).to(place.device, place.type);
  compare(
      place, "to eight bits, both layouts", [&] { kernels::quantize_float8(input, at::kFloat8_e4m3fn); },
      [&] {
        const at::Tensor amax = input.abs().max().to(at::kFloat);
        const at::Tensor quantized =
            input.to(at::kFloat).mul(amax.reciprocal().mul(448)).clamp(-448, 448).to(at::kFloat8_e4m3fn);
        quantized.t().contiguous();
      });
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_gpu = argc == 2 && std::string_view(argv[1]) == "--gpu";
  if (on_gpu && !trainctl::runtime::load_cuda()) {
    std::fprintf(stderr, "no usable GPU here\n");
    return 1;
  }
  trainctl::runtime::install_host_allocator(trainctl::runtime::HostMemory::cached);
  const Place place = on_gpu ? Place{c10::Device(c10::kCUDA, 0), at::kBFloat16, 16384}
                             : Place{c10::Device(c10::kCPU), at::kFloat, 2048};
  const std::int64_t size = on_gpu ? 4096 : 768;
  std::printf("| operator | ours, ms | LibTorch's, ms | ratio |\n| --- | --- | --- | --- |\n");
  compare_norms(place, size);
  compare_activations(place, 4 * size);
  compare_adam(place, on_gpu ? 2048 : 512);
  if (on_gpu) compare_quantizer(place, size);
}

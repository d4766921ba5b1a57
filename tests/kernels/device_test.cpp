// The GPU's kernels, thread by thread on a CPU, and on a GPU where there is one.
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>

#include "kernels/cuda_grid.h"
#include "kernels/device/emulated_grid.h"
#include "kernels/device/operators.h"
#include "kernels/exactness.h"
#include "support/gpu.h"

namespace trainctl::kernels::device {
namespace {

constexpr double kEpsilon = 1e-5;

/// What a rounding to the type may change, relative to the largest value.
double tolerance_of(at::ScalarType type) {
  return type == at::kBFloat16 ? 5e-3 : type == at::kHalf ? 6e-4 : 3e-6;
}

/// Where kernels run, and where their tensors are.
struct Place {
  const Grid& grid;
  c10::Device device = c10::kCPU;
};

/// A tensor whose elements begin `offset` elements after an allocation does.
at::Tensor drawn(std::vector<std::int64_t> shape, at::ScalarType type, const Place& place, std::int64_t offset = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::randn({count + offset}).to(place.device, type).narrow(0, offset, count).view(shape);
}

struct NormCase {
  Norm norm = Norm::layer;
  std::int64_t rows = 1;
  std::int64_t size = 1;
  at::ScalarType branch = at::kFloat;
  at::ScalarType normed = at::kFloat;
  bool has_residual = true;
  bool has_sum_gradient = true;
  std::int64_t offset = 0;
};

void check(const NormCase& one, const Place& place) {
  INFO((one.norm == Norm::layer ? "layer " : "rms ")
       << one.rows << " x " << one.size << " of " << one.branch << " to " << one.normed
       << (one.has_residual ? ", residual" : "") << ", offset " << one.offset);
  const std::vector<std::int64_t> shape{one.rows, one.size};
  at::Tensor residual;
  if (one.has_residual) residual = drawn(shape, at::kFloat, place, one.offset);
  const at::Tensor branch = drawn(shape, one.branch, place, one.offset);
  const at::Tensor weight = at::rand({one.size}).add_(0.5).to(place.device);
  at::Tensor bias;
  if (one.norm == Norm::layer) bias = at::randn({one.size}).to(place.device);
  const at::Tensor incoming = drawn(shape, one.normed, place), of_sum = drawn(shape, at::kFloat, place, one.offset);

  const auto [sum, normed, means, scales] = add_norm(place.grid, residual, branch, weight, bias, kEpsilon, one.normed);
  const at::Tensor kept = sum.defined() ? sum : branch;
  const auto [gradient, branch_gradient, of_weight, of_bias] =
      add_norm_backward(place.grid, incoming, one.has_sum_gradient ? std::optional(of_sum) : std::nullopt, kept, weight,
                        means, scales, one.branch);

  const at::Tensor r = exactly(residual.defined() ? residual.cpu() : residual), b = exactly(branch.cpu());
  const at::Tensor w = exactly(weight.cpu()), shift = exactly(bias.defined() ? bias.cpu() : bias);
  const at::Tensor exact_sum = r.defined() ? r.add(b) : b;
  const at::Tensor exact = shift.defined() ? at::layer_norm(exact_sum, {one.size}, w, shift, kEpsilon)
                                           : at::rms_norm(exact_sum, {one.size}, w, kEpsilon);
  at::Tensor loss = exact.mul(incoming.cpu().to(at::kDouble)).sum();
  if (one.has_sum_gradient) loss = loss.add(exact_sum.mul(of_sum.cpu().to(at::kDouble)).sum());
  std::vector<at::Tensor> of{b, w};
  if (shift.defined()) of.push_back(shift);
  const auto wanted = torch::autograd::grad({loss}, of);

  // One element is its own mean: the gradient is a difference of equals, times 1 / √epsilon.
  const double least = one.size == 1 ? 1 / std::sqrt(kEpsilon) : 1e-30;
  CHECK(error_of(normed.cpu(), exact) <= tolerance_of(one.normed));
  if (sum.defined()) CHECK(error_of(sum.cpu(), exact_sum) <= tolerance_of(at::kFloat));
  CHECK(error_of(gradient.cpu(), wanted[0], least) <= 10 * tolerance_of(at::kFloat));
  CHECK(error_of(branch_gradient.cpu(), wanted[0], least) <= 10 * tolerance_of(one.branch));
  CHECK(branch_gradient.scalar_type() == one.branch);
  CHECK(error_of(of_weight.cpu(), wanted[1], least) <= 10 * tolerance_of(at::kFloat));
  if (of_bias.defined()) CHECK(error_of(of_bias.cpu(), wanted[2]) <= 10 * tolerance_of(at::kFloat));
}

/// Rows that are fewer and more than blocks, and sizes that end within a chunk, a warp, a block and a thread's items.
void check_norms(const Place& place) {
  for (const Norm norm : {Norm::layer, Norm::rms}) {
    for (const std::int64_t size : {1, 3, 4, 31, 32, 33, 64, 100, 128, 516, 2048, 2052, 3000, 4095})
      for (const std::int64_t rows : {1, 5})
        check({.norm = norm, .rows = rows, .size = size, .has_residual = rows > 1}, place);
    for (const auto& [branch, normed] : {std::pair(at::kBFloat16, at::kBFloat16),
                                         {at::kBFloat16, at::kFloat},
                                         {at::kHalf, at::kHalf},
                                         {at::kHalf, at::kFloat}})
      for (const std::int64_t size : {7, 64, 4100})
        check({.norm = norm, .rows = 5, .size = size, .branch = branch, .normed = normed}, place);
    check({.norm = norm, .rows = 3, .size = 64, .has_sum_gradient = false}, place);
    check({.norm = norm, .rows = 3, .size = 64, .offset = 1}, place);  // too little aligned for four at once
    check({.norm = norm, .rows = 2, .size = 4 * AddNormBackwardArguments::kMostChunks}, place);
  }
}

void check_gelu(std::int64_t rows, std::int64_t size, at::ScalarType type, bool has_bias, Gelu form,
                const Place& place) {
  INFO(rows << " x " << size << " of " << type << (has_bias ? ", bias" : ""));
  const at::Tensor input = drawn({rows, size}, type, place), incoming = drawn({rows, size}, type, place);
  at::Tensor bias;
  if (has_bias) bias = at::randn({size}).to(place.device);
  const at::Tensor output = bias_gelu(place.grid, input, bias, form);
  const auto [of_input, of_bias] = bias_gelu_backward(place.grid, incoming, input, bias, form);
  const at::Tensor x = exactly(input.cpu()), shift = exactly(has_bias ? bias.cpu() : bias);
  const at::Tensor exact = at::gelu(has_bias ? x.add(shift) : x, form == Gelu::tanh ? "tanh" : "none");
  const auto wanted = torch::autograd::grad({exact}, has_bias ? std::vector{x, shift} : std::vector{x},
                                            {incoming.cpu().to(at::kDouble)});
  CHECK(error_of(output.cpu(), exact, 1) <= tolerance_of(type));
  CHECK(error_of(of_input.cpu(), wanted[0], 1) <= tolerance_of(type));
  CHECK(of_bias.defined() == has_bias);
  if (has_bias) CHECK(error_of(of_bias.cpu(), wanted[1], 1) <= tolerance_of(at::kFloat));
}

void check_activations(const Place& place) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const Gelu form : {Gelu::erf, Gelu::tanh})
      for (const bool has_bias : {false, true})
        for (const std::int64_t size : {1, 5, 32, 129, 1028, 3000})
          for (const std::int64_t rows : {1, 7}) check_gelu(rows, size, type, has_bias, form, place);
    for (const std::int64_t size : {1, 4, 127, 4096, 9001}) {
      const at::Tensor gate = drawn({size}, type, place), up = drawn({size}, type, place);
      const at::Tensor incoming = drawn({size}, type, place);
      const auto [of_gate, of_up] = swiglu_backward(place.grid, incoming, gate, up);
      const at::Tensor g = exactly(gate.cpu()), u = exactly(up.cpu());
      const at::Tensor exact = at::silu(g).mul(u);
      const auto wanted = torch::autograd::grad({exact}, {g, u}, {incoming.cpu().to(at::kDouble)});
      CHECK(error_of(swiglu(place.grid, gate, up).cpu(), exact) <= tolerance_of(type));
      CHECK(error_of(of_gate.cpu(), wanted[0]) <= tolerance_of(type));
      CHECK(error_of(of_up.cpu(), wanted[1]) <= tolerance_of(type));
    }
  }
}

TEST_CASE("the GPU's norms, thread by thread, are exact to their types", "[kernels]") {
  for (const std::int64_t blocks : {1, 3, 64}) check_norms({EmulatedGrid(blocks)});
}

TEST_CASE("the GPU's activations, thread by thread, are exact to their types", "[kernels]") {
  for (const std::int64_t blocks : {1, 3, 64}) check_activations({EmulatedGrid(blocks)});
}

TEST_CASE("a block adds up all its threads", "[kernels]") {
  for (const int threads : {32, 64, 96, 512}) {
    const Block block(0, {.blocks = 1, .threads = threads});
    Block::PerThread<Sums<2>> values(block);
    block.each([&](int thread) { values[thread] = {static_cast<float>(thread), 1}; });
    const Sums<2> total = block.sum(values);
    CHECK(total.values[0] == static_cast<float>(threads * (threads - 1) / 2));
    CHECK(total.values[1] == static_cast<float>(threads));
  }
}

TEST_CASE("a GPU's norms and activations are exact to their types", "[kernels][gpu]") {
  testing::need_gpu();
  const Place place{cuda_grid(), c10::Device(c10::kCUDA, 0)};
  check_norms(place);
  check_activations(place);
}

}  // namespace
}  // namespace trainctl::kernels::device

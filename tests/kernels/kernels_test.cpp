// Our operators against LibTorch's own, composed: values and gradients.
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <thread>

#include "kernels/exactness.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/rotary.h"
#include "kernels/softmax_gradient.h"
#include "kernels/swiglu.h"
#include "runtime/memory.h"

namespace trainctl::kernels::kernels_test {
namespace {

at::Tensor draw(std::vector<std::int64_t> shape, at::ScalarType dtype) {
  return at::randn(shape, dtype).requires_grad_(true);
}

struct Case {
  at::ScalarType dtype;
  double tolerance;
};
const Case kFloatCase{at::kFloat, 2e-6};
const Case kDoubleCase{at::kDouble, 1e-13};

at::Tensor plain_loss(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& targets, double smoothing) {
  const at::Tensor logits = at::linear(hidden, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Sum, -100, smoothing);
}

void check_cross_entropy(const Case& numbers, bool has_bias, double smoothing, std::int64_t chunk) {
  INFO("bias " << has_bias << ", smoothing " << smoothing << ", chunk " << chunk);
  const at::Tensor hidden = draw({37, 24}, numbers.dtype);
  const at::Tensor weight = draw({101, 24}, numbers.dtype);
  const at::Tensor bias = has_bias ? draw({101}, numbers.dtype) : at::Tensor();
  const at::Tensor targets = at::randint(101, {37}, at::kLong);
  targets.narrow(0, 5, 4).fill_(-100);
  std::vector<at::Tensor> inputs{hidden, weight};
  if (has_bias) inputs.push_back(bias);

  const at::Tensor expected = plain_loss(hidden, weight, bias, targets, smoothing);
  const at::Tensor actual =
      linear_cross_entropy(hidden, weight, bias, targets, {.label_smoothing = smoothing, .chunk_size = chunk});
  CHECK(error_of(actual, expected) <= numbers.tolerance);
  // The mean over the rows, which is the likely one, and another.
  for (const double scale : {1.0 / 37, 0.3}) {
    const auto wanted = torch::autograd::grad({expected.mul(scale)}, inputs, {}, /*retain_graph=*/true);
    const at::Tensor again =
        linear_cross_entropy(hidden, weight, bias, targets, {.label_smoothing = smoothing, .chunk_size = chunk});
    const auto given = torch::autograd::grad({again.mul(scale)}, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) CHECK(error_of(given[i], wanted[i]) <= numbers.tolerance);
  }
}

/// Two ranks with parts of the vocabulary, as threads: each waits in sum() and max() for the other.
class TwoParts {
 public:
  VocabularyPart part(std::size_t rank, std::int64_t first, std::int64_t size) {
    return {
        .first = first,
        .size = size,
        .sum = [this, rank](at::Tensor& value) { exchange(rank, value, [](auto& a, auto& b) { return a.add(b); }); },
        .max = [this, rank](at::Tensor& value) { exchange(rank, value, at::maximum); }};
  }

 private:
  template <class Combine>
  void exchange(std::size_t rank, at::Tensor& value, const Combine& combine) {
    given_[rank] = value.clone();
    meet_.arrive_and_wait();
    value.copy_(combine(given_[0], given_[1]));
    meet_.arrive_and_wait();
  }

  std::array<at::Tensor, 2> given_;
  std::barrier<> meet_{2};
};

TEST_CASE("cross-entropy over a vocabulary that two ranks share is that over the whole", "[kernels]") {
  for (const double smoothing : {0.0, 0.1})
    for (const std::int64_t chunk : {0, 8}) {
      CAPTURE(smoothing, chunk);
      const at::Tensor hidden = draw({37, 24}, at::kDouble);
      const at::Tensor weight = draw({101, 24}, at::kDouble);
      const at::Tensor bias = draw({101}, at::kDouble);
      const at::Tensor targets = at::randint(101, {37}, at::kLong);
      targets.narrow(0, 5, 4).fill_(-100);
      const at::Tensor expected = plain_loss(hidden, weight, bias, targets, smoothing);
      const auto wanted = torch::autograd::grad({expected.mul(0.3)}, {hidden, weight, bias});
      TwoParts parts;
      std::array<std::vector<at::Tensor>, 2> given;
      std::array<at::Tensor, 2> losses;
      const auto work = [&](std::size_t rank) {
        const std::int64_t first = rank == 0 ? 0 : 50;
        const std::int64_t size = rank == 0 ? 50 : 51;
        const VocabularyPart part = parts.part(rank, first, 101);
        const std::vector<at::Tensor> inputs{hidden.detach().requires_grad_(),
                                             weight.detach().narrow(0, first, size).requires_grad_(),
                                             bias.detach().narrow(0, first, size).requires_grad_()};
        losses[rank] = linear_cross_entropy(inputs[0], inputs[1], inputs[2], targets,
                                            {.label_smoothing = smoothing, .chunk_size = chunk, .part = &part});
        given[rank] = torch::autograd::grad({losses[rank].mul(0.3)}, inputs);
      };
      std::thread other(work, 1);
      work(0);
      other.join();
      for (const at::Tensor& loss : losses) CHECK(error_of(loss, expected) <= 1e-12);
      CHECK(error_of(given[0][0].add(given[1][0]), wanted[0]) <= 1e-12);
      for (const std::size_t i : {std::size_t{1}, std::size_t{2}})
        CHECK(error_of(at::cat({given[0][i], given[1][i]}), wanted[i]) <= 1e-12);
    }
}

TEST_CASE("chunked cross-entropy is the plain one, whatever the chunk", "[kernels]") {
  for (const Case& numbers : {kFloatCase, kDoubleCase})
    for (const bool has_bias : {false, true})
      for (const double smoothing : {0.0, 0.1})
        for (const std::int64_t chunk : {0, 1, 8, 37, 64}) check_cross_entropy(numbers, has_bias, smoothing, chunk);
}

/// Bytes that a function's tensors take at most beyond those that live before it.
template <class Function>
std::int64_t peak_bytes(const Function& function) {
  runtime::reset_host_peak();
  const std::int64_t before = runtime::host_memory().current;
  function();
  return runtime::host_memory().peak - before;
}

TEST_CASE("chunked cross-entropy takes less than half of the plain one's memory at a vocabulary of 50,000",
          "[kernels]") {
  runtime::install_host_allocator(runtime::HostMemory::cached);
  const at::Tensor hidden = draw({512, 64}, at::kFloat);
  const at::Tensor weight = at::randn({50257, 64}).mul_(0.02).requires_grad_(true);  // as it is initialised
  const at::Tensor targets = at::randint(50257, {512}, at::kLong);
  const std::vector<at::Tensor> inputs{hidden, weight};
  std::vector<at::Tensor> wanted, given;
  const std::int64_t plain =
      peak_bytes([&] { wanted = torch::autograd::grad({plain_loss(hidden, weight, {}, targets, 0)}, inputs); });
  const std::int64_t chunked =
      peak_bytes([&] { given = torch::autograd::grad({linear_cross_entropy(hidden, weight, {}, targets)}, inputs); });
  INFO(plain << " bytes plain, " << chunked << " chunked");
  CHECK(2 * chunked < plain);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // By norm: the largest single difference is fp32's own noise, 1e-6 between either and double precision.
    const double apart = given[i].sub(wanted[i]).norm().item<double>() / wanted[i].norm().item<double>();
    CHECK(apart <= 1e-6);
    CHECK(error_of(given[i], wanted[i]) <= 2e-6);
  }
}

TEST_CASE("the softmax's gradient in place is LibTorch's, for rows of any width and extreme logits", "[kernels]") {
  for (const std::int64_t size : {1, 2, 15, 16, 17, 1000, 4099})
    for (const double smoothing : {0.0, 0.2}) {
      INFO(size << " columns, smoothing " << smoothing);
      at::Tensor logits = at::randn({9, size}).mul(30);
      logits[0].fill_(-1e4);
      logits[1].narrow(0, 0, 1).fill_(1e4);
      const at::Tensor targets = at::randint(size, {9}, at::kLong);
      const at::Tensor exact = logits.to(at::kDouble).requires_grad_(true);
      const at::Tensor losses = at::cross_entropy_loss(exact, targets, {}, at::Reduction::None, -100, smoothing);
      losses.sum().backward();
      at::Tensor gradient = logits.clone();
      const at::Tensor actual = to_softmax_gradient(gradient, targets, smoothing);
      CHECK(gradient.to(at::kDouble).sub(exact.grad()).abs().max().item<double>() <= 5e-7);
      CHECK(error_of(actual.to(at::kDouble), losses) <= 2e-6);

      const at::Tensor bias = at::randn({size});
      at::Tensor unbiased = logits.sub(bias);
      const at::Tensor again = unbiased.add(bias);  // as rounded
      const at::Tensor exact_again = again.to(at::kDouble).requires_grad_(true);
      const at::Tensor losses_again =
          at::cross_entropy_loss(exact_again, targets, {}, at::Reduction::None, -100, smoothing);
      losses_again.sum().backward();
      const at::Tensor biased = to_softmax_gradient(unbiased, targets, smoothing, bias);
      CHECK(unbiased.to(at::kDouble).sub(exact_again.grad()).abs().max().item<double>() <= 5e-7);
      CHECK(error_of(biased.to(at::kDouble), losses_again) <= 2e-6);
    }
}

TEST_CASE("chunked cross-entropy leaves out gradients that nobody wants", "[kernels]") {
  const at::Tensor hidden = draw({8, 4}, at::kFloat);
  const at::Tensor weight = at::randn({11, 4});
  const at::Tensor targets = at::randint(11, {8}, at::kLong);
  linear_cross_entropy(hidden, weight, {}, targets).backward();
  CHECK(hidden.grad().defined());
  CHECK_FALSE(weight.grad().defined());
  CHECK_FALSE(linear_cross_entropy(hidden.detach(), weight, {}, targets).requires_grad());
}

TEST_CASE("SwiGLU is silu(gate) · up", "[kernels]") {
  for (const Case& numbers : {kFloatCase, kDoubleCase})
    for (const std::int64_t size : {1, 15, 16, 1000}) {
      INFO(size);
      const at::Tensor gate = draw({3, 7, size}, numbers.dtype);
      const at::Tensor up = draw({3, 7, size}, numbers.dtype);
      const at::Tensor cotangent = at::randn({3, 7, size}, numbers.dtype);
      const at::Tensor expected = at::silu(gate).mul(up);
      const at::Tensor actual = swiglu(gate, up);
      CHECK(error_of(actual, expected) <= numbers.tolerance);
      const auto wanted = torch::autograd::grad({expected}, {gate, up}, {cotangent});
      const auto given = torch::autograd::grad({actual}, {gate, up}, {cotangent});
      for (std::size_t i = 0; i < 2; ++i) CHECK(error_of(given[i], wanted[i]) <= numbers.tolerance);
    }
  const at::Tensor extremes = at::scalar_tensor(1000, at::kFloat).mul(at::linspace(-1, 1, 33));
  CHECK(error_of(swiglu(extremes, at::ones_like(extremes)), at::silu(extremes)) <= kFloatCase.tolerance);
}

at::Tensor rotated(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto wide = [](const at::Tensor& table) { return at::cat({table, table}, -1).unsqueeze(-3); };
  const std::int64_t half = heads.size(3) / 2;
  const at::Tensor swapped = at::cat({heads.narrow(3, half, half).neg(), heads.narrow(3, 0, half)}, 3);
  return heads.mul(wide(cosine)).add(swapped.mul(wide(sine)));
}

TEST_CASE("rotary embedding is the textbook's, for views and per-row positions too", "[kernels]") {
  for (const Case& numbers : {kFloatCase, kDoubleCase})
    for (const bool per_row : {false, true}) {
      const at::Tensor hidden = draw({2, 5, 3 * 8}, numbers.dtype);  // [B, T, H d]
      const at::Tensor heads = hidden.unflatten(-1, {3, 8}).transpose(1, 2);
      const std::vector<std::int64_t> shape =
          per_row ? std::vector<std::int64_t>{2, 5, 4} : std::vector<std::int64_t>{5, 4};
      const at::Tensor angles = at::randn(shape, numbers.dtype);
      const at::Tensor cosine = angles.cos().mul(1.1);
      const at::Tensor sine = angles.sin().mul(1.1);
      const at::Tensor cotangent = at::randn({2, 3, 5, 8}, numbers.dtype);
      const at::Tensor expected = rotated(heads, cosine, sine);
      const at::Tensor actual = rotate(heads, cosine, sine);
      CHECK(error_of(actual, expected) <= numbers.tolerance);
      const auto wanted = torch::autograd::grad({expected}, {hidden}, {cotangent});
      const auto given = torch::autograd::grad({actual}, {hidden}, {cotangent});
      CHECK(error_of(given[0], wanted[0]) <= numbers.tolerance);
    }
}

}  // namespace
}  // namespace trainctl::kernels::kernels_test

// Dropout by sample: what it drops, that it doesn't depend on how batches are cut, and its gradient.
#include "kernels/dropout.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/cuda_grid.h"
#include "kernels/device/emulated_grid.h"
#include "kernels/device/operators.h"
#include "kernels/device/philox.h"
#include "kernels/drop_words.h"
#include "support/gpu.h"

namespace trainctl::kernels::dropout_test {
namespace {

at::Tensor dropped_for(const at::Tensor& input, double probability, runtime::SampleRange samples = {.seed = 5}) {
  const runtime::SampleRandomness randomness(samples);
  return dropout(input, probability);
}

std::array<std::uint32_t, 4> philox_of(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  std::uint32_t words[4][1] = {{counter[0]}, {counter[1]}, {counter[2]}, {counter[3]}};
  device::philox(words, key);
  return {words[0][0], words[1][0], words[2][0], words[3][0]};
}

TEST_CASE("Philox gives the published numbers", "[kernels]") {
  using Words = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox_of({0, 0, 0, 0}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_of({kOnes, kOnes, kOnes, kOnes}, ~std::uint64_t{0}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_of({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("dropout drops at its rate and scales the rest", "[kernels]") {
  const at::Tensor ones = at::ones({64, 100'000});
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    const at::Tensor output = dropped_for(ones, probability);
    const double dropped = output.eq(0).to(at::kDouble).mean().item<double>();
    const double deviation = std::sqrt(probability * (1 - probability) / 6.4e6);
    CHECK(dropped == Approx(probability).margin(5 * deviation + 1e-9));
    CHECK(at::equal(output.ne(0), output.eq(static_cast<float>(1 / (1 - probability)))));
    // Each sample and each place for itself: χ² of 64 and of 100,000 counts is within five deviations.
    for (const std::int64_t dim : {std::int64_t{0}, std::int64_t{1}}) {
      if (probability == 0) continue;
      const at::Tensor counts = output.eq(0).to(at::kDouble).sum(1 - dim);
      const auto each = static_cast<double>(output.size(1 - dim));
      const auto number = static_cast<double>(counts.numel());
      const double chi =
          counts.sub(each * probability).square().sum().item<double>() / (each * probability * (1 - probability));
      CHECK(chi == Approx(number).margin(5 * std::sqrt(2 * number)));
    }
  }
}

TEST_CASE("masks of other calls, samples, epochs, seeds and neighbours are independent", "[kernels]") {
  const at::Tensor ones = at::ones({2, 1 << 18}, at::kDouble);
  std::vector<at::Tensor> masks;
  const auto add = [&](const at::Tensor& output) {
    for (std::int64_t sample = 0; sample < output.size(0); ++sample)
      masks.push_back(output[sample].ne(0).to(at::kDouble).sub(0.5).mul(2));
  };
  {
    const runtime::SampleRandomness randomness({.seed = 1});
    add(dropout(ones, 0.5));
    add(dropout(ones, 0.5));
  }
  add(dropped_for(ones, 0.5, {.seed = 1, .epoch = 1}));
  add(dropped_for(ones, 0.5, {.seed = 1, .epoch = 0, .first_sample = 2}));
  add(dropped_for(ones, 0.5, {.seed = 1, .epoch = 0, .first_sample = std::int64_t{1} << 32}));
  add(dropped_for(ones, 0.5, {.seed = 2}));
  // Correlations of fair signs over n places have a deviation of 1/√n.
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      INFO(i << " " << j);
      CHECK(std::abs(masks[i].mul(masks[j]).mean().item<double>()) < 5.0 / 512);
    }
    for (const std::int64_t apart : {1, 2, 3, 4, 15, 16, 17, 64, 512}) {
      const std::int64_t count = masks[i].numel() - apart;
      INFO(i << " " << apart);
      CHECK(std::abs(masks[i].narrow(0, 0, count).mul(masks[i].narrow(0, apart, count)).mean().item<double>()) <
            5.0 / 511);
    }
  }
}

TEST_CASE("a sample is dropped alike in whatever batch, by however many threads", "[kernels]") {
  const int threads = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor input = at::rand({6, 3, 777}).add(1).to(dtype);
    at::set_num_threads(1);
    const at::Tensor whole = dropped_for(input, 0.3, {.seed = 5, .epoch = 2, .first_sample = 10});
    at::set_num_threads(4);
    for (const std::int64_t each : {1, 2, 3, 6}) {
      std::vector<at::Tensor> parts;
      for (std::int64_t begin = 0; begin < 6; begin += each)
        parts.push_back(
            dropped_for(input.narrow(0, begin, each), 0.3, {.seed = 5, .epoch = 2, .first_sample = 10 + begin}));
      CHECK(at::equal(at::cat(parts), whole));
    }
    // Longer rows change nothing for what they begin with.
    const at::Tensor longer = at::cat({input, input}, 1);
    CHECK(at::equal(dropped_for(longer, 0.3, {.seed = 5, .epoch = 2, .first_sample = 10}).narrow(1, 0, 3), whole));
    at::set_num_threads(threads);
  }
}

TEST_CASE("dropout of attention weights doesn't depend on how far rows are padded", "[kernels]") {
  const auto dropped = [](std::int64_t queries, std::int64_t keys) {
    const runtime::SampleRandomness randomness({.seed = 9, .epoch = 0, .first_sample = 3});
    return dropout_attention(at::ones({2, 3, queries, keys}), 0.4);
  };
  const at::Tensor small = dropped(5, 70);
  CHECK(at::equal(dropped(9, 133).narrow(2, 0, 5).narrow(3, 0, 70), small));
  const double rate = dropped(64, 1000).eq(0).to(at::kDouble).mean().item<double>();
  CHECK(rate == Approx(0.4).margin(0.004));
  CHECK_FALSE(at::equal(small.select(1, 0), small.select(1, 1)));
  CHECK_FALSE(at::equal(small.select(2, 0), small.select(2, 1)));
}

TEST_CASE("a rank with some elements of each sample drops those that are dropped of the whole", "[kernels]") {
  const runtime::SampleRange samples{.seed = 5, .first_sample = 3};
  const at::Tensor whole = at::randn({4, 7, 300});
  const at::Tensor expected = dropped_for(whole, 0.3, samples);
  const auto check = [&](const at::Tensor& part, const at::Tensor& wanted, const runtime::ElementRuns& runs) {
    const at::Tensor leaf = part.contiguous().requires_grad_();
    std::optional<runtime::SampleRandomness::Draw> draw;
    {
      const runtime::SampleRandomness randomness(samples);
      draw = runtime::SampleRandomness::next_draw();
    }
    const runtime::SampleRandomness randomness(samples);
    const at::Tensor dropped = dropout(leaf, 0.3, runs);
    CHECK(at::equal(dropped.detach(), wanted));
    CHECK(at::equal(dropout_composed(leaf.detach(), 0.3, *draw, runs), wanted));
    const at::Tensor slope = torch::autograd::grad({dropped.sum()}, {leaf}).front();
    CHECK(at::equal(slope.eq(0), wanted.eq(0)));
  };
  for (const auto& [begin, size] : {std::pair<std::int64_t, std::int64_t>(0, 150), {150, 150}, {37, 101}, {299, 1}})
    check(whole.narrow(2, begin, size), expected.narrow(2, begin, size),
          {.length = size, .distance = 300, .first = begin});
  // Some of the tokens of each sample.
  check(whole.narrow(1, 3, 4), expected.narrow(1, 3, 4), {.length = 1200, .distance = 2100, .first = 900});
}

TEST_CASE("a rank with some heads drops those of their attention weights that are dropped of all", "[kernels]") {
  const at::Tensor weights = at::rand({3, 6, 9, 70}).add(0.1);
  const auto dropped = [](const at::Tensor& some, const HeadRange& heads) {
    const runtime::SampleRandomness randomness({.seed = 5});
    return dropout_attention(some, 0.4, heads);
  };
  const at::Tensor expected = dropped(weights, {});
  CHECK(at::equal(dropped(weights, {.first = 0, .of = 6}), expected));
  CHECK(at::equal(dropped(weights.narrow(1, 2, 3).contiguous(), {.first = 2, .of = 6}), expected.narrow(1, 2, 3)));
}

TEST_CASE("LibTorch's operators drop the same elements", "[kernels]") {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor input = at::randn({3, 5, 301}).to(dtype);
    const runtime::SampleRandomness::Draw draw{.key = 0x123456789abcdef0, .first_sample = (std::int64_t{1} << 33) + 7};
    const at::Tensor composed = dropout_composed(input, 0.25, draw);
    std::optional<runtime::SampleRandomness::Draw> own;
    {
      const runtime::SampleRandomness randomness({.seed = 4, .epoch = 1, .first_sample = draw.first_sample});
      own = runtime::SampleRandomness::next_draw();
    }
    const at::Tensor expected = dropped_for(input, 0.25, {.seed = 4, .epoch = 1, .first_sample = draw.first_sample});
    const at::Tensor actual = dropout_composed(input, 0.25, *own);
    CHECK(at::equal(actual.eq(0), expected.eq(0)));
    if (dtype != at::kBFloat16) CHECK(at::equal(actual, expected));  // which is rounded twice there
    CHECK_FALSE(at::equal(composed.eq(0), expected.eq(0)));
  }
}

void check_kernel(const device::Grid& grid, at::Device place) {
  constexpr double kProbability = 0.25;
  const runtime::SampleRandomness::Draw draw{.key = 0x123456789abcdef0, .first_sample = (std::int64_t{1} << 33) + 7};
  const device::DropRows all{.key = draw.key, .first_sample = draw.first_sample, .threshold = drop_threshold(0.25)};
  const auto dropped = [&](const at::Tensor& input, const device::DropRows& rows) {
    return device::dropout(grid, input.to(place), rows, 1 / (1 - kProbability)).cpu();
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    device::DropRows rows = all;
    const at::Tensor input = at::randn({3, 5, 301}).to(dtype);
    rows.count = 3, rows.size = 5 * 301;
    CHECK(at::equal(dropped(input, rows), dropout_composed(input.to(at::kFloat), kProbability, draw).to(dtype)));

    const runtime::ElementRuns runs{.length = 43, .distance = 301, .first = 86};
    const at::Tensor parts = at::randn({3, 5, 43}).to(dtype);
    rows.count = 15, rows.per_sample = 5, rows.size = 43, rows.run_distance = 301, rows.first_run = 86;
    CHECK(at::equal(dropped(parts, rows), dropout_composed(parts.to(at::kFloat), kProbability, draw, runs).to(dtype)));

    const at::Tensor weights = at::randn({2, 3, 4, 70}).to(dtype);
    const WeightPlace where{.heads = {.first = 2, .of = 7}, .first_query = 5, .first_key = 33};
    rows = all;
    rows.count = 24, rows.per_sample = 12, rows.size = 70;
    rows.heads = 3, rows.first_head = 2, rows.all_heads = 7, rows.first_query = 5, rows.first_key = 33;
    CHECK(at::equal(dropped(weights, rows), drop_weights(weights, kProbability, draw, where)));
  }
}

TEST_CASE("the GPU's kernel, thread by thread, drops the same elements", "[kernels]") {
  for (const std::int64_t blocks : {1, 3, 64}) check_kernel(device::EmulatedGrid(blocks), at::kCPU);
}

TEST_CASE("a GPU drops the same elements", "[kernels][gpu]") {
  testing::need_gpu();
  check_kernel(cuda_grid(), at::Device(at::kCUDA, 0));
  const at::Tensor input = at::randn({3, 5, 301});
  CHECK(at::equal(dropped_for(input.to(at::kCUDA), 0.5).cpu(), dropped_for(input, 0.5)));
}

TEST_CASE("the backward pass drops what the forward pass dropped, in any memory layout", "[kernels]") {
  for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor input = at::randn({2, 3, 9, 7}, at::kDouble).contiguous(format).requires_grad_(true);
    const at::Tensor output = dropped_for(input, 0.5);
    CHECK(output.is_contiguous(format));
    for (const at::MemoryFormat other : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor cotangent = at::randn({2, 3, 9, 7}, at::kDouble).contiguous(other);
      const auto gradient = torch::autograd::grad({output}, {input}, {cotangent}, /*retain_graph=*/true);
      CHECK(at::equal(gradient[0], cotangent.mul(output.detach().ne(0)).mul(2)));
    }
  }
}

TEST_CASE("gradients through dropout agree with finite differences", "[kernels]") {
  const at::Tensor input = at::randn({2, 40}, at::kDouble).requires_grad_(true);
  const at::Tensor cotangent = at::randn({2, 40}, at::kDouble);
  const auto value = [&](const at::Tensor& at) { return dropped_for(at.square(), 0.3).mul(cotangent).sum(); };
  const auto gradient = torch::autograd::grad({value(input)}, {input});
  for (const std::int64_t i : {0, 17, 63, 79}) {
    const at::Tensor step = at::zeros_like(input).view({-1});
    step[i].fill_(1e-6);
    const at::Tensor moved = step.view({2, 40});
    const double slope =
        (value(input.detach().add(moved)).item<double>() - value(input.detach().sub(moved)).item<double>()) / 2e-6;
    CHECK(gradient[0].view({-1})[i].item<double>() == Approx(slope).epsilon(1e-6).margin(1e-8));
  }
}

TEST_CASE("outside all scopes dropout draws from the default generator", "[kernels]") {
  const at::Tensor ones = at::ones({4, 100});
  at::manual_seed(3);
  const at::Tensor first = dropout(ones, 0.5);
  CHECK_FALSE(at::equal(dropout(ones, 0.5), first));
  at::manual_seed(3);
  CHECK(at::equal(dropout(ones, 0.5), first));
}

TEST_CASE("empty batches and empty samples go through dropout", "[kernels]") {
  CHECK(dropped_for(at::ones({0, 5}), 0.5).sizes() == at::IntArrayRef({0, 5}));
  CHECK(dropped_for(at::ones({5, 0}), 0.5).sizes() == at::IntArrayRef({5, 0}));
}

}  // namespace
}  // namespace trainctl::kernels::dropout_test

// Attention in blocks, put together, against attention to all keys at once.
#include "kernels/attention_block.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "support/gpu.h"

namespace trainctl::kernels::attention_block_test {
namespace {

constexpr std::int64_t kTokens = 96;
constexpr std::int64_t kChunk = kTokens / 3;  // which CUDA's kernel takes as it is

struct Case {
  at::ScalarType dtype;
  bool has_mask;
  double bound;
};

/// Attention of all queries, in chunks of keys: causal, or with a mask.
struct Whole {
  at::Tensor output;
  AttentionGradients gradients;
};
Whole in_chunks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                const at::Tensor& gradient) {
  const auto sums = q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const double never = -std::numeric_limits<double>::infinity();
  Whole whole{.output = at::zeros(q.sizes(), sums),
              .gradients = {at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)}};
  const at::Tensor log_sums = at::full({q.size(0), q.size(1), kTokens}, never, sums);
  const auto each_pair = [&](const auto& use) {
    for (std::int64_t i = 0; i < kTokens; i += kChunk)
      for (std::int64_t j = 0; j < kTokens; j += kChunk) {
        if (!mask.defined() && j > i) continue;
        BlockWeights weights{.is_causal = !mask.defined() && i == j};
        if (mask.defined()) weights.mask = mask.narrow(2, i, kChunk).narrow(3, j, kChunk);
        use(i, j, weights);
      }
  };
  const auto rows = [](const at::Tensor& tensor, std::int64_t begin) { return tensor.narrow(2, begin, kChunk); };
  each_pair([&](std::int64_t i, std::int64_t j, const BlockWeights& weights) {
    AttentionBlock part{rows(whole.output, i), rows(log_sums, i)};
    add_block(part, attention_block(rows(q, i), rows(k, j), rows(v, j), weights));
  });
  log_sums.masked_fill_(log_sums.isinf(), -never);
  const at::Tensor output = whole.output.to(q.scalar_type());
  each_pair([&](std::int64_t i, std::int64_t j, const BlockWeights& weights) {
    const AttentionGradients part = attention_block_gradients(rows(gradient, i), rows(q, i), rows(k, j), rows(v, j),
                                                              {rows(output, i), rows(log_sums, i)}, weights);
    rows(whole.gradients.q, i).add_(part.q);
    rows(whole.gradients.k, j).add_(part.k);
    rows(whole.gradients.v, j).add_(part.v);
  });
  return whole;
}

double gap(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kCPU, at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

void check_case(const Case& one, c10::Device device) {
  CAPTURE(c10::toString(one.dtype), one.has_mask);
  const auto random = [&](std::int64_t heads) {
    return at::randn({2, heads, kTokens, 8}, at::kDouble).to(one.dtype).to(at::kDouble).requires_grad_(true);
  };
  const at::Tensor q = random(4);
  const at::Tensor k = random(2);  // grouped queries
  const at::Tensor v = random(2);
  const at::Tensor gradient = random(4).detach();
  at::Tensor mask;
  if (one.has_mask) {  // whole blocks are hidden, and nothing is visible to the first queries of the first sample
    mask = at::ones({2, 1, kTokens, kTokens}, at::kBool).tril_();
    mask[0].narrow(2, 0, kChunk + 3).fill_(false);
  }
  const at::Tensor expected = at::scaled_dot_product_attention(
      q, k, v, one.has_mask ? std::optional(mask) : std::nullopt, 0, !one.has_mask, std::nullopt, /*enable_gqa=*/true);
  const std::vector<at::Tensor> gradients = torch::autograd::grad({expected}, {q, k, v}, {gradient});
  const auto given = [&](const at::Tensor& tensor) { return tensor.detach().to(device, one.dtype); };
  const Whole whole = in_chunks(given(q), given(k), given(v), one.has_mask ? mask.to(device) : mask, given(gradient));
  CHECK(gap(whole.output, expected) < one.bound);
  CHECK(gap(whole.gradients.q, gradients[0]) < one.bound);
  CHECK(gap(whole.gradients.k, gradients[1]) < 2 * one.bound);
  CHECK(gap(whole.gradients.v, gradients[2]) < 2 * one.bound);
}

TEST_CASE("blocks put together are attention to all keys, and so are their gradients", "[kernels]") {
  for (const Case& one : {Case{at::kDouble, false, 1e-13}, Case{at::kDouble, true, 1e-13},
                          Case{at::kFloat, false, 1e-5}, Case{at::kFloat, true, 1e-5}, Case{at::kBFloat16, false, 0.1}})
    check_case(one, c10::kCPU);
}

TEST_CASE("a GPU puts blocks together as the CPU does", "[kernels][gpu]") {
  testing::need_gpu();
  for (const Case& one : {Case{at::kDouble, true, 1e-12}, Case{at::kFloat, false, 5e-3}, Case{at::kFloat, true, 5e-3},
                          Case{at::kBFloat16, false, 0.1}, Case{at::kBFloat16, true, 0.1}})
    check_case(one, c10::Device(c10::kCUDA, 0));
}

TEST_CASE("a block drops the weights that are dropped in the whole", "[kernels]") {
  const at::Tensor ones = at::ones({2, 3, 40, 150});
  const runtime::SampleRandomness::Draw draw{.key = 77, .first_sample = 5};
  const at::Tensor whole = drop_weights(ones, 0.3, draw, {});
  for (const auto& [query, key] : {std::pair<std::int64_t, std::int64_t>(0, 0), {7, 64}, {20, 33}, {39, 100}}) {
    const std::int64_t rows = std::min<std::int64_t>(11, 40 - query);
    const at::Tensor part = drop_weights(ones.narrow(2, query, rows).narrow(3, key, 50).narrow(1, 1, 2), 0.3, draw,
                                         {.heads = {.first = 1, .of = 3}, .first_query = query, .first_key = key});
    CHECK(gap(part, whole.narrow(2, query, rows).narrow(3, key, 50).narrow(1, 1, 2)) == 0);
  }
}

}  // namespace
}  // namespace trainctl::kernels::attention_block_test

// Attention of short sequences against the same in double precision by LibTorch's operators.
#include "kernels/attention.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/exactness.h"
#include "machine/cpu.h"

namespace trainctl::kernels::attention_test {
namespace {

struct Shape {
  std::int64_t batch, heads, kv_heads, tokens, size;
};

/// [B, H, T, d]; dense in [B, T, H, d], as split_heads() makes them.
at::Tensor heads(const Shape& shape, std::int64_t count) {
  return at::randn({shape.batch, shape.tokens, count, shape.size}).transpose(1, 2);
}

/// `factors` [B, H, T, T]: what dropout multiplies the weights by.
at::Tensor exact(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, Visible visible,
                 const at::Tensor& factors = at::ones({1}, at::kDouble)) {
  const std::int64_t group = q.size(1) / k.size(1);
  at::Tensor scores =
      at::matmul(q, k.repeat_interleave(group, 1).transpose(2, 3)).div(std::sqrt(static_cast<double>(q.size(3))));
  const at::Tensor seen = mask.defined()            ? mask
                          : visible == Visible::all ? at::ones({q.size(2), q.size(2)}, at::kBool)
                                                    : at::ones({q.size(2), q.size(2)}, at::kBool).tril();
  scores = scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor weights = at::softmax(scores, -1).nan_to_num(0).mul(factors);
  return at::matmul(weights, v.repeat_interleave(group, 1));
}

/// What rounding once to the type may change.
double tolerance_of(at::ScalarType type) {
  return type == at::kFloat ? 2e-6 : 0x1p-8;
}

void check(const Shape& shape, const at::Tensor& mask, Visible visible, at::ScalarType type = at::kFloat,
           double dropout = 0) {
  INFO(type << ", dropout " << dropout << ", "
            << "batch " << shape.batch << ", heads " << shape.heads << " of " << shape.kv_heads << ", tokens "
            << shape.tokens << ", size " << shape.size);
  std::vector<at::Tensor> inputs;
  for (const std::int64_t count : {shape.heads, shape.kv_heads, shape.kv_heads})
    inputs.push_back(heads(shape, count).to(type).requires_grad_(true));
  std::vector<at::Tensor> doubles;
  for (const at::Tensor& input : inputs) doubles.push_back(input.detach().to(at::kDouble).requires_grad_(true));
  REQUIRE(suits_short_attention(inputs[0], inputs[1], inputs[2], mask));
  const HeadRange range{.first = 3, .of = shape.heads + 5};
  at::manual_seed(7);
  const at::Tensor actual =
      short_attention(inputs[0], inputs[1], inputs[2], mask, visible, {.probability = dropout, .heads = range});
  at::manual_seed(7);
  const at::Tensor all = at::ones({shape.batch, shape.heads, shape.tokens, shape.tokens}, at::kDouble);
  const at::Tensor factors = dropout_attention(all, dropout, range);
  const at::Tensor expected = exact(doubles[0], doubles[1], doubles[2], mask, visible, factors);
  CHECK(actual.scalar_type() == type);
  CHECK(error_of(actual, expected, 1) <= tolerance_of(type));
  const at::Tensor cotangent = at::randn_like(actual);
  const auto given = torch::autograd::grad({actual}, inputs, {cotangent});
  const auto wanted = torch::autograd::grad({expected}, doubles, {cotangent.to(at::kDouble)});
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO("gradient " << i);
    CHECK(given[i].scalar_type() == type);
    // The mean of a row's gradients is a sum over d elements of the output, of bf16 each.
    CHECK(error_of(given[i], wanted[i], 1) <= (type == at::kFloat ? 1 : 4) * tolerance_of(type));
  }
}

TEST_CASE("attention of short sequences and its gradients are the exact ones, whole blocks or not", "[kernels]") {
  at::manual_seed(1);  // with one token the gradients are differences of equal sums, whose rounding has long tails
  for (const Shape& shape : {Shape{2, 3, 3, 128, 32}, Shape{1, 4, 2, 77, 64}, Shape{3, 6, 1, 17, 16},
                             Shape{2, 2, 2, 1, 48}, Shape{1, 2, 2, 200, 128}, Shape{1, 1, 1, 512, 64}})
    for (const Visible visible : {Visible::all, Visible::up_to_itself}) check(shape, {}, visible);
}

TEST_CASE("attention of short sequences sees what its mask shows, and a query that sees nothing gives zeros",
          "[kernels]") {
  const Shape shape{3, 4, 2, 50, 32};
  at::Tensor padding = at::ones({3, 1, 1, 50}, at::kBool);
  padding.narrow(0, 1, 1).narrow(3, 20, 30).fill_(false);
  check(shape, padding, Visible::all);
  at::Tensor any = at::rand({3, 1, 50, 50}).gt(0.5);
  any.narrow(0, 2, 1).narrow(2, 7, 1).fill_(false);
  check(shape, any, Visible::all);
  const at::Tensor q = heads(shape, 4);
  const at::Tensor k = heads(shape, 2);
  CHECK(short_attention(q, k, k, any, Visible::all).narrow(0, 2, 1).narrow(2, 7, 1).abs().max().item<double>() == 0);
}

TEST_CASE("attention of short sequences in bf16 is exact but for the rounding of its results", "[kernels]") {
  at::manual_seed(1);
  for (const Shape& shape :
       {Shape{2, 3, 3, 128, 32}, Shape{1, 4, 2, 77, 64}, Shape{3, 6, 1, 17, 16}, Shape{2, 2, 2, 1, 48}})
    for (const Visible visible : {Visible::all, Visible::up_to_itself})
      for (const double dropout : {0.0, 0.3}) check(shape, {}, visible, at::kBFloat16, dropout);
}

TEST_CASE("attention of short sequences drops the weights that dropout of whole attention drops", "[kernels]") {
  at::manual_seed(1);
  at::Tensor padding = at::ones({3, 1, 1, 17}, at::kBool);
  padding.narrow(0, 1, 1).narrow(3, 9, 8).fill_(false);
  check({3, 6, 1, 17, 16}, padding, Visible::all, at::kFloat, 0.1);
  for (const Shape& shape :
       {Shape{2, 3, 3, 128, 32}, Shape{1, 4, 2, 77, 64}, Shape{2, 2, 2, 1, 48}, Shape{1, 1, 1, 512, 64}})
    for (const Visible visible : {Visible::all, Visible::up_to_itself})
      for (const double dropout : {0.1, 0.9}) check(shape, {}, visible, at::kFloat, dropout);
}

TEST_CASE("attention of queries, keys and values side by side is that of each, and so is its gradient", "[kernels]") {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor joined = at::randn({2, 37, 3 * 4 * 16}).to(type).requires_grad_(true);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : joined.chunk(3, -1)) parts.push_back(part.unflatten(-1, {4, 16}).transpose(1, 2));
    const auto run = [&](bool together) {
      at::manual_seed(7);
      return together ? short_attention(joined, 4, {}, Visible::up_to_itself, {.probability = 0.1})
                      : short_attention(parts[0], parts[1], parts[2], {}, Visible::up_to_itself, {.probability = 0.1});
    };
    const at::Tensor whole = run(true), each = run(false);
    CHECK(whole.equal(each));
    const at::Tensor cotangent = at::randn_like(whole);
    CHECK(torch::autograd::grad({whole}, {joined}, {cotangent})[0].equal(
        torch::autograd::grad({each}, {joined}, {cotangent})[0]));
  }
}

TEST_CASE("scores that are huge or not a number stay what they are", "[kernels]") {
  const Shape shape{1, 1, 1, 20, 16};
  const at::Tensor q = heads(shape, 1).mul(1e4);
  const at::Tensor k = heads(shape, 1);
  const at::Tensor v = heads(shape, 1);
  const at::Tensor expected = exact(q.to(at::kDouble), k.to(at::kDouble), v.to(at::kDouble), {}, Visible::up_to_itself);
  CHECK(error_of(short_attention(q, k, v, {}, Visible::up_to_itself), expected, 1) <= 1e-3);
  at::Tensor poisoned = k.clone();
  poisoned.narrow(2, 5, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  const at::Tensor output = short_attention(q, poisoned, v, {}, Visible::up_to_itself);
  CHECK(output.narrow(2, 0, 5).isfinite().all().item<bool>());
  CHECK(output.narrow(2, 5, 15).isnan().all().item<bool>());
}

TEST_CASE("LibTorch's attention is left what it computes faster by AMX", "[kernels]") {
  const bool has_amx = machine::onednn_features().amx_bf16;
  const at::Tensor few = heads({1, 1, 1, 256, 16}, 1), many = heads({1, 1, 1, 257, 16}, 1);
  for (const at::Tensor& floats : {few, many}) CHECK(short_attention_is_faster(floats, Visible::all));
  CHECK(short_attention_is_faster(few.to(at::kBFloat16), Visible::all) == !has_amx);
  CHECK(short_attention_is_faster(few.to(at::kBFloat16).requires_grad_(true), Visible::all));
  CHECK(short_attention_is_faster(many.to(at::kBFloat16).requires_grad_(true), Visible::all) == !has_amx);
  CHECK(short_attention_is_faster(many.to(at::kBFloat16).requires_grad_(true), Visible::up_to_itself));
}

TEST_CASE("attention that doesn't suit the loops for short sequences is refused", "[kernels]") {
  const at::Tensor q = heads({1, 1, 1, 513, 16}, 1);
  CHECK_FALSE(suits_short_attention(q, q, q, {}));
  const at::Tensor odd = heads({1, 1, 1, 8, 20}, 1);
  CHECK_FALSE(suits_short_attention(odd, odd, odd, {}));
  const at::Tensor half = heads({1, 1, 1, 8, 16}, 1).to(at::kHalf);
  CHECK_FALSE(suits_short_attention(half, half, half, {}));
  const at::Tensor whole = heads({1, 1, 1, 8, 16}, 1);
  CHECK_FALSE(suits_short_attention(whole, whole.to(at::kBFloat16), whole, {}));
}

}  // namespace
}  // namespace trainctl::kernels::attention_test

#include "roofline/op_cost.h"

#include <catch2/catch.hpp>

namespace trainctl::roofline {
namespace {

TensorUse tensor(Operation::Shape sizes) {
  TensorUse use{.shape = std::move(sizes), .bytes = 4};
  for (const std::int64_t size : use.shape) use.bytes *= static_cast<double>(size);
  return use;
}

DispatchedOperator called(std::string_view name, c10::SmallVector<TensorUse, 4> inputs) {
  DispatchedOperator call{.name = name, .inputs = std::move(inputs)};
  for (const TensorUse& input : call.inputs) call.input_bytes += input.bytes;
  return call;
}

double flops(const DispatchedOperator& call) {
  return operator_cost(call, find_cost_rule(call.name)).flops;
}

double bytes(DispatchedOperator call, double allocated) {
  call.allocated_bytes = allocated;
  return operator_cost(call, find_cost_rule(call.name)).bytes;
}

TEST_CASE("products count two operations a multiply-add", "[roofline]") {
  CHECK(flops(called("aten::mm", {tensor({10, 20}), tensor({20, 30})})) == 2 * 10 * 20 * 30);
  CHECK(flops(called("aten::addmm", {tensor({30}), tensor({10, 20}), tensor({20, 30})})) == 2 * 10 * 20 * 30);
  CHECK(flops(called("aten::addmv", {tensor({10}), tensor({10, 20}), tensor({20})})) == 2 * 10 * 20);
  CHECK(flops(called("aten::bmm", {tensor({7, 10, 20}), tensor({7, 20, 30})})) == 7 * 2 * 10 * 20 * 30);
  CHECK(flops(called("mkldnn::_linear_pointwise", {tensor({4, 10, 20}), tensor({30, 20})})) == 2 * 40 * 20 * 30);
  CHECK(flops(called("aten::relu", {tensor({10})})) == 0);
  CHECK(flops(called("aten::mm", {})) == 0);
}

TEST_CASE("convolutions count each output value's filter, and each gradient that is asked for", "[roofline]") {
  const TensorUse input = tensor({8, 16, 32, 32});
  const TensorUse filter = tensor({24, 16, 3, 3});
  const TensorUse gradient = tensor({8, 24, 16, 16});
  const double each = 2.0 * 8 * 24 * 16 * 16 * 16 * 9;
  DispatchedOperator forward = called("aten::mkldnn_convolution", {input, filter});
  CHECK(flops(forward) == 0);
  forward.convolved = gradient.shape;
  CHECK(flops(forward) == each);
  DispatchedOperator backward = called("aten::convolution_backward", {gradient, input, filter});
  CHECK(flops(backward) == 2 * each);
  read_flags(c10::List<bool>({false, true, true}), 10, backward);
  CHECK(flops(backward) == each);
}

TEST_CASE("attention counts two products, of which causal attention needs half", "[roofline]") {
  const double each = 2.0 * 2 * 4 * 32 * 64 * 16;
  const TensorUse q = tensor({2, 4, 32, 16});
  const TensorUse k = tensor({2, 4, 64, 16});
  DispatchedOperator call = called("aten::_scaled_dot_product_flash_attention", {q, k, k});
  CHECK(flops(call) == 2 * each);
  read_flags(true, 5, call);  // return_debug_mask
  CHECK(flops(call) == 2 * each);
  read_flags(true, 4, call);  // is_causal
  CHECK(flops(call) == each);
  // The kernels below have [B, T, H, d].
  const TensorUse turned_k = tensor({2, 64, 4, 16});
  CHECK(flops(called("aten::_flash_attention_forward", {tensor({2, 32, 4, 16}), turned_k, turned_k})) == 2 * each);
}

TEST_CASE("bytes are those read and written, and views have none", "[roofline]") {
  CHECK(bytes(called("aten::add", {tensor({100}), tensor({100})}), 400) == 1200);
  CHECK(bytes(called("aten::add_", {tensor({100}), tensor({100})}), 400) == 1200);
  CHECK(bytes(called("aten::embedding", {tensor({1000, 10}), tensor({5})}), 200) == 400);
  CHECK(bytes(called("aten::view", {tensor({100})}), 0) == 0);
  CHECK(bytes(called("aten::empty", {}), 400) == 0);
}

}  // namespace
}  // namespace trainctl::roofline

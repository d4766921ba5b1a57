#include "profiler/record/operator_cost.h"

#include <catch2/catch.hpp>

namespace trainctl::profiler {
namespace {

OperatorInput tensor(std::vector<std::int64_t> sizes) {
  return {.sizes = std::move(sizes), .element_bytes = 4, .numbers = {}};
}
OperatorInput numbers(std::vector<std::int64_t> values) {
  return {.sizes = {}, .element_bytes = 0, .numbers = std::move(values)};
}

TEST_CASE("products count two operations a multiply-add", "[profiler]") {
  CHECK(operator_flops("aten::mm", {tensor({10, 20}), tensor({20, 30})}) == 2 * 10 * 20 * 30);
  CHECK(operator_flops("aten::addmm", {tensor({30}), tensor({10, 20}), tensor({20, 30})}) == 2 * 10 * 20 * 30);
  CHECK(operator_flops("aten::bmm", {tensor({7, 10, 20}), tensor({7, 20, 30})}) == 7 * 2 * 10 * 20 * 30);
  CHECK(operator_flops("mkldnn::_linear_pointwise", {tensor({4, 10, 20}), tensor({30, 20})}) == 2 * 40 * 20 * 30);
  CHECK(operator_flops("aten::relu", {tensor({10})}) == 0);
  CHECK(operator_flops("aten::mm", {}) == 0);
}

TEST_CASE("convolutions count each output value's filter, whatever stride, padding and groups", "[profiler]") {
  const auto input = tensor({8, 16, 32, 32});
  const auto filter = tensor({24, 16, 3, 3});
  CHECK(operator_flops("aten::mkldnn_convolution",
                       {input, filter, {}, numbers({1, 1}), numbers({2, 2}), numbers({1, 1}), numbers({1})}) ==
        2.0 * 8 * 24 * 16 * 16 * 16 * 9);
  CHECK(operator_flops(
            "aten::mkldnn_convolution",
            {input, tensor({24, 1, 3, 3}), {}, numbers({1, 1}), numbers({1, 1}), numbers({1, 1}), numbers({16})}) ==
        2.0 * 8 * 24 * 32 * 32 * 9);
  const auto gradient = tensor({8, 24, 16, 16});
  CHECK(operator_flops("aten::convolution_backward", {gradient, input, filter}) == 2 * 2.0 * 8 * 24 * 16 * 16 * 16 * 9);
}

TEST_CASE("bytes are those read and written, and views have none", "[profiler]") {
  CHECK(operator_bytes("aten::add", {tensor({100}), tensor({100})}, 400) == 1200);
  CHECK(operator_bytes("aten::add_", {tensor({100}), tensor({100})}, 0) == 1200);
  CHECK(operator_bytes("aten::view", {tensor({100})}, 0) == 0);
}

}  // namespace
}  // namespace trainctl::profiler

#include "train/monitor/parameter_histograms.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace trainctl::train {
namespace {

optimizer::OptimizedParameter parameter(const at::Tensor& values, const at::Tensor& gradient = {}) {
  at::Tensor tensor = values.clone().requires_grad_(true);
  if (gradient.defined()) tensor.mutable_grad() = gradient;
  return {.name = "fc.weight", .tensor = tensor};
}

TEST_CASE("each value is in its bin, from the lowest to the highest", "[train]") {
  const tracking::ParametersMeasured measured = measure_parameters(7, {parameter(at::arange(0, 128, at::kFloat))});
  CHECK(measured.step == 7);
  REQUIRE(measured.tensors.size() == 1);
  const tracking::TensorMeasured& weight = measured.tensors[0];
  CHECK(weight.name == "weight/fc.weight");
  CHECK(weight.norm == Approx(std::sqrt(127.0 * 128 * 255 / 6)));
  CHECK(weight.histogram.low == 0);
  CHECK(weight.histogram.high == 127);
  CHECK(weight.histogram.counts == std::vector<std::int64_t>(64, 2));
}

TEST_CASE("equal values are one bin, and what is not finite is left out", "[train]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const at::Tensor gradient = at::tensor({1.0, kInfinity, NAN, 3.0}).to(at::kBFloat16);
  const auto tensors = measure_parameters(1, {parameter(at::full({4}, 0.5, at::kBFloat16), gradient)}).tensors;
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].histogram.counts == std::vector<std::int64_t>{4});
  CHECK(tensors[1].name == "gradient/fc.weight");
  CHECK(std::isnan(tensors[1].norm));
  CHECK(tensors[1].histogram.low == 1);
  CHECK(tensors[1].histogram.high == 3);
  CHECK(tensors[1].histogram.counts.front() == 1);
  CHECK(tensors[1].histogram.counts.back() == 1);
  CHECK(measure_parameters(1, {parameter(at::full({2}, NAN))}).tensors[0].histogram.counts.empty());
}

}  // namespace
}  // namespace trainctl::train

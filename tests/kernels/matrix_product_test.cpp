// The faster matrix products against the same in double precision.
#include "kernels/matrix_product.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/exactness.h"

namespace trainctl::kernels::matrix_product_test {
namespace {

constexpr ProductLibrary kLibraries[] = {ProductLibrary::mkl, ProductLibrary::onednn};
constexpr std::optional<ProductLibrary> kChoices[] = {ProductLibrary::mkl, ProductLibrary::onednn, std::nullopt};

/// `input` [..., in], `weight` [out, in].
void check_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, ProductLibrary library) {
  const at::Tensor x = input.detach().requires_grad_(true);
  const at::Tensor w = weight.detach().requires_grad_(true);
  const at::Tensor b = bias.detach().requires_grad_(true);
  const at::Tensor cotangent = at::randn_like(at::linear(input, weight));
  const std::vector<at::Tensor> exact{exactly(x), exactly(w), exactly(b)};
  const at::Tensor expected = at::linear(exact[0], exact[1], exact[2]);
  const at::Tensor actual = linear_product(x, w, b, library);
  CHECK(actual.sizes() == expected.sizes());
  CHECK(error_of(actual, expected) <= 2e-6);
  const auto wanted = torch::autograd::grad({expected}, exact, {cotangent.to(at::kDouble)});
  const auto given = torch::autograd::grad({actual}, {x, w, b}, {cotangent});
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO("gradient " << i);
    CHECK(given[i].sizes() == wanted[i].sizes());
    CHECK(error_of(given[i], wanted[i]) <= 4e-6);
  }
}

TEST_CASE("a linear layer's product and gradients are the exact ones, small or large, however it lies in memory",
          "[kernels]") {
  for (const ProductLibrary library : kLibraries)
    for (const std::int64_t rows : {1, 3, 64, 256}) {
      INFO(rows << " rows, library " << static_cast<int>(library));
      const at::Tensor bias = at::randn({160});
      check_linear(at::randn({rows, 96}), at::randn({160, 96}), bias, library);
      check_linear(at::randn({rows, 96}), at::randn({96, 160}).t(), bias, library);
      check_linear(at::randn({rows, 2, 96}).transpose(0, 1), at::randn({160, 96}), bias, library);
      check_linear(at::randn({rows, 192}).narrow(1, 32, 96), at::randn({96, 160}).t(), bias, library);
      check_linear(at::randn({rows, 96}), at::randn({160, 200}).narrow(1, 8, 96), bias, library);
    }
}

TEST_CASE("a linear layer's gradients are only those that are wanted", "[kernels]") {
  const at::Tensor input = at::randn({256, 96});
  const at::Tensor weight = at::randn({160, 96}).requires_grad_(true);
  linear_product(input, weight).sum().backward();
  CHECK(weight.grad().defined());
  CHECK_FALSE(input.grad().defined());
  CHECK_FALSE(linear_product(input, weight.detach()).requires_grad());
}

/// Three layers of one input, of which the second has no bias, and the third lies transposed.
struct Layers {
  at::Tensor input;
  std::vector<LinearFactors> layers;

  std::vector<at::Tensor> leaves() const {
    return {input, layers[0].weight, layers[1].weight, layers[2].weight, *layers[0].bias, *layers[2].bias};
  }
};

Layers as_leaves(const Layers& of, at::ScalarType dtype) {
  const auto leaf = [dtype](const at::Tensor& tensor) { return tensor.detach().to(dtype).requires_grad_(true); };
  Layers result{.input = leaf(of.input), .layers = {}};
  for (const LinearFactors& layer : of.layers)
    result.layers.push_back({leaf(layer.weight), layer.bias ? std::optional(leaf(*layer.bias)) : std::nullopt});
  return result;
}

TEST_CASE("layers of one input give the exact products, and the exact sum of its gradients", "[kernels]") {
  for (const ProductLibrary library : kLibraries)
    for (const at::Tensor& input :
         {at::randn({2, 67, 96}), at::randn({1, 1, 96}), at::randn({67, 2, 96}).transpose(0, 1)}) {
      INFO(input.sizes() << ", library " << static_cast<int>(library));
      const Layers values{.input = input,
                          .layers = {{at::randn({160, 96}), at::randn({160})},
                                     {at::randn({33, 96}), {}},
                                     {at::randn({96, 160}).t(), at::randn({160})}}};
      const Layers floats = as_leaves(values, at::kFloat);
      const Layers exact = as_leaves(values, at::kDouble);
      const std::vector<at::Tensor> outputs = linear_products(floats.input, floats.layers, library);
      at::Tensor sum = at::zeros({}, at::kDouble);
      at::Tensor exact_sum = at::zeros({}, at::kDouble);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const LinearFactors& layer = exact.layers[i];
        const at::Tensor expected = at::linear(exact.input, layer.weight, layer.bias);
        CHECK(outputs[i].sizes() == expected.sizes());
        CHECK(error_of(outputs[i], expected) <= 2e-6);
        const at::Tensor cotangent = at::randn_like(expected);
        exact_sum = exact_sum.add(expected.mul(cotangent).sum());
        sum = sum.add(outputs[i].mul(cotangent.to(at::kFloat)).sum().to(at::kDouble));
      }
      const auto given = torch::autograd::grad({sum}, floats.leaves());
      const auto wanted = torch::autograd::grad({exact_sum}, exact.leaves());
      for (std::size_t i = 0; i < given.size(); ++i) {
        INFO("gradient " << i);
        CHECK(given[i].sizes() == wanted[i].sizes());
        CHECK(given[i].strides() == wanted[i].strides());
        CHECK(error_of(given[i], wanted[i]) <= 4e-6);
      }
    }
}

TEST_CASE("layers of one input need no gradient of what is frozen, and none of what isn't used", "[kernels]") {
  const at::Tensor input = at::randn({64, 96}).requires_grad_(true);
  const std::vector<LinearFactors> layers{{at::randn({160, 96}), {}},
                                          {at::randn({32, 96}).requires_grad_(true), at::randn({32})},
                                          {at::randn({160, 96}).requires_grad_(true), {}}};
  const std::vector<at::Tensor> outputs = linear_products(input, layers, ProductLibrary::mkl);
  outputs[0].sum().add(outputs[1].sum()).backward();
  CHECK(error_of(input.grad(), layers[0].weight.sum(0).add(layers[1].weight.sum(0)).expand({64, 96})) <= 4e-6);
  CHECK_FALSE(layers[0].weight.grad().defined());
  CHECK(layers[1].weight.grad().defined());
  CHECK_FALSE(layers[2].weight.grad().defined());
  const at::NoGradGuard no_grad;
  CHECK_FALSE(linear_products(input, layers, ProductLibrary::mkl)[1].requires_grad());
}

TEST_CASE("products as wide as a vocabulary, and of other types, are the exact ones", "[kernels]") {
  for (const ProductLibrary library : kLibraries)
    for (const std::int64_t width : {7, 1024, 5000, 30522}) {
      INFO(width << " columns, library " << static_cast<int>(library));
      const at::Tensor left = at::randn({40, 64});
      const at::Tensor right = at::randn({width, 64});
      const at::Tensor expected = at::mm(left.to(at::kDouble), right.t().to(at::kDouble));
      CHECK(error_of(matrix_product(left, right.t(), library), expected) <= 2e-6);
      CHECK(error_of(matrix_product(left, right.t().contiguous(), library), expected) <= 2e-6);
      CHECK(error_of(matrix_product(left.to(at::kDouble), right.t().to(at::kDouble), library), expected) <= 1e-14);
      CHECK(error_of(matrix_product(right, left.t(), library), expected.t()) <= 2e-6);
    }
}

TEST_CASE("a product whose left side lies transposed, alone or added to a sum, is the exact one", "[kernels]") {
  for (const std::int64_t rows : {3, 200, 1024}) {
    INFO(rows << " rows");
    const at::Tensor left = at::randn({rows, 130}).t();
    const at::Tensor right = at::randn({rows, 96});
    const at::Tensor transposed = at::randn({96, rows}).t();
    for (const at::Tensor& factor : {right, transposed}) {
      const at::Tensor expected = at::mm(left.to(at::kDouble), factor.to(at::kDouble));
      for (const std::optional<ProductLibrary> library : kChoices)
        CHECK(error_of(matrix_product(left, factor, library), expected) <= 4e-6);
      at::Tensor sum = at::randn({130, 96});
      const at::Tensor wanted = sum.to(at::kDouble).add(expected);
      add_matrix_product(sum, left, factor);
      CHECK(error_of(sum, wanted) <= 4e-6);
      at::Tensor unset = at::full({130, 96}, std::nan(""));
      add_matrix_product(unset, left, factor, 0);
      CHECK(error_of(unset, expected) <= 4e-6);
    }
    at::Tensor wide = at::ones({130, 96}, at::kDouble);
    add_matrix_product(wide, left, right);
    CHECK(error_of(wide, at::mm(left, right).to(at::kDouble).add(1)) <= 1e-12);
    add_matrix_product(wide.fill_(std::nan("")), left, right, 0);
    CHECK(error_of(wide, at::mm(left, right).to(at::kDouble)) <= 1e-12);
  }
}

TEST_CASE("a product as tall as a vocabulary, alone or added to a sum, is the exact one", "[kernels]") {
  const at::Tensor left = at::randn({40, 9000}).t();
  const at::Tensor right = at::randn({40, 64});
  const at::Tensor expected = at::mm(left.to(at::kDouble), right.to(at::kDouble));
  for (const std::optional<ProductLibrary> library : kChoices)
    CHECK(error_of(matrix_product(left, right, library), expected) <= 4e-6);
  at::Tensor sum = at::randn({9000, 64});
  const at::Tensor wanted = sum.to(at::kDouble).add(expected);
  add_matrix_product(sum, left, right);
  CHECK(error_of(sum, wanted) <= 4e-6);
}

}  // namespace
}  // namespace trainctl::kernels::matrix_product_test

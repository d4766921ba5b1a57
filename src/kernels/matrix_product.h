// Matrix products by the faster of the libraries that LibTorch carries.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace trainctl::kernels {

/// The library that computes a product of floats on a CPU.
enum class ProductLibrary { mkl, onednn };

/// MKL on Intel's processors, oneDNN on all others. A fact of the processor, not a measurement, so that runs repeat to
/// the bit; docs/platforms.md has the rates.
ProductLibrary product_library();

/// input Wᵀ + bias, [..., in] -> [..., out], as at::linear. The weight [out, in] may lie transposed in memory.
at::Tensor linear_product(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {},
                          ProductLibrary library = product_library());

/// A linear layer's matrix [out, in] and its bias [out], if it has one.
struct LinearFactors {
  at::Tensor weight;
  std::optional<at::Tensor> bias;
};

/// Whether linear_products() does more than its layers one by one: in fp32 on CPUs whose products are MKL's.
bool shares_input_gradient(const at::Tensor& input, ProductLibrary library = product_library());
/// linear_product() of one input [..., in] by each of some layers. Their gradients of the input are summed by the
/// products themselves, which saves a pass over memory for each.
std::vector<at::Tensor> linear_products(const at::Tensor& input, const std::vector<LinearFactors>& layers,
                                        ProductLibrary library = product_library());

/// left · right of [N, K] and [K, M], outside autograd. By the faster library for these shapes, if none is given. A
/// left factor that lies transposed is copied for oneDNN.
at::Tensor matrix_product(const at::Tensor& left, const at::Tensor& right, std::optional<ProductLibrary> library = {});
/// sum = beta · sum + left · right, outside autograd. `sum` [N, M] is contiguous and of the factors' type or a wider
/// one. With a beta of 0, its values are not read.
void add_matrix_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right, double beta = 1);

}  // namespace trainctl::kernels

// Small models for the tests of model/.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "model/model.h"

namespace trainctl::testing {

inline model::ModelConfig with_network(model::NetworkConfig network) {
  return {.network = std::move(network), .memory_format = {}, .init_from = {}};
}

/// Built for images, materialised on the CPU.
inline std::unique_ptr<model::Model> ready_model(model::NetworkConfig network, const model::InputSpec& input,
                                                 std::uint64_t seed = 1) {
  std::unique_ptr<model::Model> model = model::build(with_network(std::move(network)), input);
  model::materialize(*model, at::kCPU, seed, /*channels_last=*/false);
  return model;
}

/// Parameters and floating-point buffers in double precision, with the same values.
inline void make_double(model::Model& model) {
  const auto convert = [](const std::string&, model::TensorDecl& decl) {
    if (decl.value.is_floating_point())
      decl.value = decl.value.detach().to(at::kDouble).requires_grad_(decl.value.requires_grad());
  };
  model.visit_parameters(convert);
  model.visit_buffers(convert);
}

inline double largest(const at::Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

/// Largest difference, relative to the largest magnitude in `expected`.
inline double difference(const at::Tensor& actual, const at::Tensor& expected) {
  return largest(actual.sub(expected)) / std::max(largest(expected), 1e-30);
}

}  // namespace trainctl::testing

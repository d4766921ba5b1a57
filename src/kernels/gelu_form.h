// Which GELU, for host code and for kernels that nvcc compiles.
#pragma once

namespace trainctl::kernels {

/// x Φ(x), or its approximation by tanh, x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))): `gelu_new` in transformers.
enum class Gelu { erf, tanh };

}  // namespace trainctl::kernels

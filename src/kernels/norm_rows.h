// Rows of a normalization on a CPU. For this folder alone.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

/// sum = residual + branch, normed = norm(sum) · weight + bias, with D elements in a row. The types are float both, or
/// bf16 both, or bf16 and float: of 16 bits with a residual only.
template <class Branch, class Normed>
struct NormRows {
  std::int64_t count = 0;
  std::int64_t size = 0;
  float epsilon = 0;
  const float* residual = nullptr;  // null: the sum is the branch
  const Branch* branch = nullptr;
  const float* weight = nullptr;  // [D]
  const float* bias = nullptr;    // [D]; null: rms
  float* sum = nullptr;           // null without a residual
  Normed* normed = nullptr;
  float* means = nullptr;   // [rows]; null: rms
  float* scales = nullptr;  // [rows]: 1 / standard deviation, or 1 / root mean square
};

template <class Branch, class Normed>
void normalize_rows(const NormRows<Branch, Normed>& rows);

/// A fixed number of parts makes sums independent of the number of threads.
constexpr std::int64_t kNormSlices = 16;

template <class Branch, class Normed>
struct NormRowGradients {
  std::int64_t count = 0;
  std::int64_t size = 0;
  const Normed* normed_gradient = nullptr;
  const float* sum_gradient = nullptr;  // null: none
  const float* sum = nullptr;
  const float* weight = nullptr;
  const float* means = nullptr;  // null: rms
  const float* scales = nullptr;
  float* gradient = nullptr;          // of the sum
  Branch* branch_gradient = nullptr;  // the same in the branch's type; null: not wanted
  float* weight_sums = nullptr;       // [kNormSlices, D], whose sum is the weight's gradient
  float* bias_sums = nullptr;         // [kNormSlices, D]; null: rms
};

template <class Branch, class Normed>
void differentiate_rows(const NormRowGradients<Branch, Normed>& rows);

}  // namespace trainctl::kernels

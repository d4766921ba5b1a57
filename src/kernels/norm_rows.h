// Rows of a normalization on a CPU. For this folder alone.
#pragma once

#include <cstdint>

namespace trainctl::kernels {

/// sum = residual + branch, normed = norm(sum) · weight + bias, with D elements in a row.
struct NormRows {
  std::int64_t count = 0;
  std::int64_t size = 0;
  float epsilon = 0;
  const float* residual = nullptr;  // null: the sum is the branch
  const float* branch = nullptr;
  const float* weight = nullptr;  // [D]
  const float* bias = nullptr;    // [D]; null: rms
  float* sum = nullptr;           // null without a residual
  float* normed = nullptr;
  float* means = nullptr;   // [rows]; null: rms
  float* scales = nullptr;  // [rows]: 1 / standard deviation, or 1 / root mean square
};

void normalize_rows(const NormRows& rows);

struct NormRowGradients {
  std::int64_t count = 0;
  std::int64_t size = 0;
  const float* normed_gradient = nullptr;
  const float* sum_gradient = nullptr;  // null: none
  const float* sum = nullptr;
  const float* weight = nullptr;
  const float* means = nullptr;  // null: rms
  const float* scales = nullptr;
  float* gradient = nullptr;     // of the residual, and of the branch
  float* weight_sums = nullptr;  // [kSlices, D], whose sum is the weight's gradient
  float* bias_sums = nullptr;    // [kSlices, D]; null: rms

  /// A fixed number makes sums independent of the number of threads.
  static constexpr std::int64_t kSlices = 16;
};

void differentiate_rows(const NormRowGradients& rows);

}  // namespace trainctl::kernels

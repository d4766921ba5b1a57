// Values rounded to levels, as part of a graph that is trained.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "model/layer.h"
#include "quantization/backend.h"

namespace trainctl::quantization {

/// Levels of an activation in training.
struct RoundingLevels {
  std::int64_t bits = 8;
  ActivationScheme activations = ActivationScheme::affine;
};

/// What stand-ins do at a step.
struct RoundingPhase {
  bool rounds = false;
  bool watches = true;
};

/// The rounding of an activation, with one range for the tensor: the average of the batches' ends.
class ActivationRounding final : public model::Layer {
 public:
  ActivationRounding(ScaleSource step_size, const RoundingLevels& levels);
  at::Tensor operator()(const at::Tensor& value, const RoundingPhase& phase);
  /// None before anything was seen.
  std::optional<QParams> levels() const;

 private:
  void watch(const at::Tensor& value);
  void begin_learning();
  /// Throws Error if the step was learned for other bits.
  bool is_learning() const;
  struct Range {
    at::Tensor scale;       // float [1]
    at::Tensor zero_point;  // float [1]
  };
  /// Returns the range of the average of the batches' ends.
  Range observed() const;

  RoundingLevels shape_;
  std::int64_t largest_;  // level
  at::Tensor& low_;       // float []
  at::Tensor& high_;      // float []
  at::Tensor& num_seen_;  // int64 []: batches
  at::Tensor* step_;      // float [1], learned; or null
  at::Tensor* learning_;  // int64 []: the bits that step_ is learned for; 0 before it has begun
  at::Tensor* zero_at_;   // float [1]: the zero point with which it began
};

/// The rounding of a matrix or a convolution's kernels: symmetric, with one scale per output channel.
class WeightRounding final : public model::Layer {
 public:
  WeightRounding(ScaleSource step_size, const at::Tensor& weight, std::int64_t out_dim);
  at::Tensor operator()(const at::Tensor& weight, const RoundingPhase& phase);
  /// float [out]; undefined before anything was seen.
  at::Tensor scales() const;

 private:
  std::int64_t out_dim_;
  at::Tensor& scales_;    // float [out]
  at::Tensor& num_seen_;  // int64 []
  at::Tensor* step_;      // float [out], learned; or null
  at::Tensor* learning_;  // int64 []
};

/// Rows that an embedding gave, [..., D], as quantize_rows() will have them. All values are in range, so all gradients
/// pass; nothing is kept.
at::Tensor rounded_rows(const at::Tensor& rows);

}  // namespace trainctl::quantization

// What a forward pass depends on beside its input and the weights: the thread's precision, and where random numbers
// stand. On a GPU the backward pass runs on threads of autograd's own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>

#include "kernels/float8_linear.h"
#include "runtime/sample_randomness.h"

namespace trainctl::activation_checkpointing {

class ForwardState {
 public:
  /// This thread's, now.
  explicit ForwardState(c10::Device device);

 private:
  friend class RestoredForwardState;
  void apply() const;

  c10::Device device_;
  bool autocast_;
  bool autocast_cache_;
  at::ScalarType autocast_dtype_;
  bool float8_products_;
  std::optional<runtime::SampleRandomness::State> randomness_;
  at::Tensor cpu_generator_;     // undefined: nothing draws from it
  at::Tensor device_generator_;  // of devices other than the CPU
};

/// Brings a state back until the end of the scope, with gradients recorded; then all is as before.
class RestoredForwardState {
 public:
  explicit RestoredForwardState(const ForwardState& state);
  RestoredForwardState(const RestoredForwardState&) = delete;
  RestoredForwardState& operator=(const RestoredForwardState&) = delete;
  ~RestoredForwardState();

 private:
  bool recorded_gradients_;
  ForwardState before_;
  kernels::Float8Products float8_products_;
  std::optional<runtime::SampleRandomness> randomness_;
};

}  // namespace trainctl::activation_checkpointing

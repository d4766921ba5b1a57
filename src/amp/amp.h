// Autocast for one step, and loss scaling that skips overflowed updates.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "amp/config.h"
#include "runtime/state.h"

namespace trainctl {

/// Operators inside the scope compute in the config's precision. One scope per step: the cache of cast weights lives as long.
class Autocast {
 public:
  Autocast(const AmpConfig& config, c10::Device device);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  bool active_;
  c10::DeviceType device_;
  bool previous_enabled_ = false;
  at::ScalarType previous_dtype_ = at::kFloat;
};

/// torch.amp.GradScaler for fp16; the identity for every other precision.
class LossScaler {
 public:
  LossScaler(const AmpConfig& config, c10::Device device);
  bool is_active() const { return scale_.defined(); }
  /// `loss` times the scale.
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale in place. Returns the overflow flag (0 or 1, on the device); undefined when inactive.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients);
  /// Moves the scale after a step, and counts overflows, on the device.
  void update(const at::Tensor& found_inf);
  /// Synchronises.
  double current_scale() const;
  std::int64_t num_overflows() const;
  void visit_state(State& state);

 private:
  AmpConfig config_;
  at::Tensor scale_;          // float []
  at::Tensor growth_;         // int32 []: steps since the last overflow
  at::Tensor num_overflows_;  // float []
};

/// Facts of this machine that make the precision slow or impossible: "" when there are none. tf32 or fp8 on a CPU is an Error.
std::string precision_warning(const AmpConfig& config, c10::Device device);

}  // namespace trainctl

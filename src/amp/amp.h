// Autocast for one step, and loss scaling that skips overflowed updates.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "amp/config.h"
#include "runtime/state.h"

namespace trainctl::amp {

/// Facts of this machine that make the precision slow: "" when there are none. tf32 on a CPU is an Error.
std::string precision_warning(const AmpConfig& config, c10::Device device);

/// Lets fp32 matrix products and convolutions of this process use tf32, or forbids it. Once, before the first step: it
/// is LibTorch's global setting, which Autocast leaves alone. Errors as precision_warning.
void apply_precision(const AmpConfig& config, c10::Device device);

/// Whether a weight's 16-bit copy is kept for the next operator that wants it, or made anew: where no rank holds all
/// weights, none should hold all their copies.
enum class WeightCasts { kept, made_anew };

/// Operators of this thread compute in the config's 16-bit type inside the scope; nothing changes for fp32 and tf32.
/// One scope per micro-batch: casts that are kept are so until the scope ends, and weights must not be updated within.
/// Of a cast that is older than a micro-batch's forward pass, autograd would compute the gradient after all others, and
/// gradients would be reduced, and gathered weights released, at the end of the backward pass only.
class Autocast {
 public:
  Autocast(const AmpConfig& config, c10::Device device, WeightCasts casts = WeightCasts::kept);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  bool active_;
  c10::DeviceType device_;
  bool changes_dtype_ = false;
  bool previous_enabled_ = false;
  bool previous_cache_ = false;
  at::ScalarType previous_dtype_ = at::kFloat;
};

/// torch.amp.GradScaler for fp16; the identity for every other precision. Nothing but the last two functions
/// synchronises.
class LossScaler {
 public:
  LossScaler(const AmpConfig& config, c10::Device device);
  bool is_active() const { return scale_.defined(); }
  /// `loss` times the scale.
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale in place. Returns the overflow flag (float [], 0 or 1, on the device);
  /// undefined when inactive. Undefined gradients are passed over.
  at::Tensor unscale(const std::vector<at::Tensor>& gradients) const;
  /// Moves the scale after a step, and counts overflows, on the device.
  void update(const at::Tensor& found_inf);
  double current_scale() const;
  std::int64_t num_overflows() const;
  void visit_state(runtime::State& state);

 private:
  AmpConfig config_;
  at::Tensor scale_;          // float []
  at::Tensor growth_;         // int32 []: steps since the last overflow
  at::Tensor num_overflows_;  // int64 []
};

}  // namespace trainctl::amp

// Autocast for one step, and loss scaling that skips overflowed updates.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amp/config.h"
#include "kernels/float8_linear.h"
#include "machine/cpu.h"
#include "runtime/state.h"

namespace trainctl::amp {

/// What makes the precision slow on a CPU with these features: "" when nothing does.
std::string slow_on_cpu(Precision mode, const machine::CpuFeatures& features, bool is_intel);
/// Facts of this machine that make the precision slow: "" when there are none. tf32 on a CPU is an Error.
std::string precision_warning(const AmpConfig& config, c10::Device device);

/// Lets fp32 matrix products and convolutions of this process use tf32, or forbids it. Once, before the first step: it
/// is LibTorch's global setting, which Autocast leaves alone. Errors as precision_warning.
void apply_precision(const AmpConfig& config, c10::Device device);

/// The lifetime of a weight's 16-bit copy: kept for the next operator that needs it, or made anew. The trainer makes
/// copies anew if no rank holds all weights, since no rank should then hold all their copies.
enum class WeightCasts { kept, made_anew };

/// A scope in which operators of this thread compute in the config's 16-bit type; fp32 and tf32 change nothing. With
/// fp8, that type is bf16, and linear layers multiply in eight bits. The trainer opens one scope per micro-batch. Kept
/// casts live until the scope ends, and weights must not be updated within it. If a cast were older than the forward
/// pass of a micro-batch, autograd would compute its gradient after all others. Gradients would then be reduced, and
/// gathered weights released, only at the end of the backward pass.
class Autocast {
 public:
  Autocast(const AmpConfig& config, c10::Device device, WeightCasts casts = WeightCasts::kept);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

 private:
  bool active_;
  std::optional<kernels::Float8Products> eight_bits_;
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
  /// Returns 1 / scale: float [] on the device. Where the scaler is active.
  at::Tensor inverse() const;
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
  bool may_be_past_interval_ = false;
};

}  // namespace trainctl::amp

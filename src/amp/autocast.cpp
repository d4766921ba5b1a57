#include <ATen/autocast_mode.h>

#include "amp/amp.h"

namespace trainctl::amp {

Autocast::Autocast(const AmpConfig& config, c10::Device device, WeightCasts casts)
    : active_(config.mode == Precision::bf16 || config.mode == Precision::fp16), device_(device.type()) {
  if (!active_) return;
  previous_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_dtype_ = at::autocast::get_autocast_dtype(device_);
  previous_cache_ = at::autocast::is_autocast_cache_enabled();
  const at::ScalarType dtype = config.mode == Precision::bf16 ? at::kBFloat16 : at::kHalf;
  // The cache is keyed by the weight alone, so another dtype needs a clear.
  changes_dtype_ = previous_enabled_ && previous_dtype_ != dtype;
  if (changes_dtype_) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, dtype);
  at::autocast::set_autocast_cache_enabled(casts == WeightCasts::kept);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0 || changes_dtype_) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, previous_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
  at::autocast::set_autocast_cache_enabled(previous_cache_);
}

}  // namespace trainctl::amp

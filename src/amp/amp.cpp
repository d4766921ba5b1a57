#include "amp/amp.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <mutex>
#include <utility>

#include "core/error.h"
#include "runtime/device.h"

namespace trainctl::amp {

namespace {

void check_multiplies_fp8(c10::Device device) {
  constexpr int kLeast = 89;  // Ada and Hopper
  if (!device.is_cuda()) return;
  const int capability = runtime::compute_capability(device);
  if (capability < kLeast)
    throw core::Error("cannot multiply in fp8 on this GPU: its compute capability is " +
                      std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
                      ", expected 8.9 or more")
        .hint("amp.mode: bf16");
}

}  // namespace

std::string slow_on_cpu(Precision mode, const machine::CpuFeatures& features, bool is_intel) {
  const std::string fastest = "; 'amp.mode: fp32' is the fastest here";
  const std::string slow = " matrix instructions: it is emulated, 50-100 times slower than fp32" + fastest;
  switch (mode) {
    case Precision::fp32:
    case Precision::tf32:
      return "";
    case Precision::bf16:
      if (!machine::multiplies_bf16(features)) return "this CPU has no bf16" + slow;
      if (is_intel && !features.amx_bf16)
        return "this CPU multiplies bf16 without AMX: steps took 1.6 to 2.1 times as long as in fp32 where that was "
               "measured" +
               fastest;
      return "";
    case Precision::fp16:
      return machine::multiplies_fp16(features) ? "" : "this CPU has no fp16" + slow;
    case Precision::fp8:
      return "this CPU has no fp8" + slow;
  }
  return "";
}

std::string precision_warning(const AmpConfig& config, c10::Device device) {
  if (!device.is_cpu()) return "";
  if (config.mode == Precision::tf32)
    throw core::Error("cannot compute in tf32 on a CPU: only NVIDIA GPUs have it").hint("amp.mode: fp32");
  return slow_on_cpu(config.mode, machine::onednn_features(), machine::is_intel());
}

void apply_precision(const AmpConfig& config, c10::Device device) {
  precision_warning(config, device);
  if (config.mode == Precision::fp8) check_multiplies_fp8(device);
  const bool tf32 = config.mode == Precision::tf32;
  // These settings are process-wide, and replicas call this on their own threads: a thread that finds them set writes
  // nothing.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto wanted = tf32 ? at::Float32MatmulPrecision::HIGH : at::Float32MatmulPrecision::HIGHEST;
  if (at::globalContext().float32MatmulPrecision() != wanted)
    at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
  if (at::globalContext().allowTF32CuDNN() != tf32) at::globalContext().setAllowTF32CuDNN(tf32);
}

Autocast::Autocast(const AmpConfig& config, c10::Device device, WeightCasts casts)
    : active_(config.mode != Precision::fp32 && config.mode != Precision::tf32), device_(device.type()) {
  if (!active_) return;
  eight_bits_.emplace(config.mode == Precision::fp8);
  previous_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_dtype_ = at::autocast::get_autocast_dtype(device_);
  previous_cache_ = at::autocast::is_autocast_cache_enabled();
  const at::ScalarType dtype = config.mode == Precision::fp16 ? at::kHalf : at::kBFloat16;
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

LossScaler::LossScaler(const AmpConfig& config, c10::Device device) : config_(config) {
  if (config_.mode != Precision::fp16) return;
  const DynamicScalingConfig* dynamic = config_.loss_scaling.get_if<DynamicScalingConfig>();
  const double first = dynamic ? dynamic->init_scale : config_.loss_scaling.get_if<StaticScalingConfig>()->scale;
  const auto options = at::TensorOptions().device(device);
  scale_ = at::full({}, first, options.dtype(at::kFloat));
  growth_ = at::zeros({}, options.dtype(at::kInt));
  num_overflows_ = at::zeros({}, options.dtype(at::kLong));
}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return is_active() ? loss.mul(scale_) : loss;
}

at::Tensor LossScaler::inverse() const {
  // Like torch.amp.GradScaler, the reciprocal is computed in fp64, so that every scale has the same inverse.
  return scale_.to(at::kDouble).reciprocal_().to(at::kFloat);
}

at::Tensor LossScaler::unscale(const std::vector<at::Tensor>& gradients) const {
  if (!is_active()) return {};
  const at::NoGradGuard no_grad;
  at::Tensor found_inf = at::zeros({}, scale_.options());
  std::vector<at::Tensor> defined;
  defined.reserve(gradients.size());
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) defined.push_back(gradient);
  const at::Tensor inverted = inverse();
  for (std::vector<at::Tensor>& of_device : runtime::by_device(defined)) {
    const c10::Device device = of_device.front().device();
    at::Tensor found = found_inf.to(device);
    at::_amp_foreach_non_finite_check_and_unscale_(of_device, found, inverted.to(device));
    found_inf = found.to(scale_.device());
  }
  return found_inf;
}

void LossScaler::update(const at::Tensor& found_inf) {
  if (!is_active()) return;
  const at::NoGradGuard no_grad;
  num_overflows_.add_(found_inf.to(at::kLong));
  if (const DynamicScalingConfig* dynamic = config_.loss_scaling.get_if<DynamicScalingConfig>()) {
    // LibTorch grows the scale when the count equals the interval, which a resumed run's count may be past.
    if (std::exchange(may_be_past_interval_, false)) growth_.clamp_max_(dynamic->growth_interval - 1);
    at::_amp_update_scale_(scale_, growth_, found_inf, dynamic->growth_factor, dynamic->backoff_factor,
                           dynamic->growth_interval);
  }
}

double LossScaler::current_scale() const {
  return is_active() ? scale_.item<double>() : 1;
}

std::int64_t LossScaler::num_overflows() const {
  return is_active() ? num_overflows_.item<std::int64_t>() : 0;
}

void LossScaler::visit_state(runtime::State& state) {
  if (!is_active()) return;
  // A static scale is the config's. A run that was static before has no scale here, and a dynamic one begins anew.
  if (config_.loss_scaling.get_if<DynamicScalingConfig>() != nullptr && state.has("scale")) {
    state.tensor("scale", scale_);
    state.tensor("growth", growth_);
    may_be_past_interval_ = true;
  }
  state.tensor("num_overflows", num_overflows_);
}

}  // namespace trainctl::amp

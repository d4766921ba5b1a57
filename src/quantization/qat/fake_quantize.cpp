#include "quantization/qat/fake_quantize.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fake_quantize_learnable_per_channel_affine.h>
#include <ATen/ops/_fake_quantize_learnable_per_tensor_affine.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/fake_quantize_per_channel_affine.h>
#include <ATen/ops/fake_quantize_per_tensor_affine.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "core/error.h"
#include "runtime/recomputation.h"

namespace trainctl::quantization {
namespace {

constexpr double kRangeAverage = 0.01;       // what a batch's ends count, once there were a hundred
constexpr std::int64_t kLowestLevel = -128;  // of a weight
constexpr std::int64_t kHighestLevel = 127;

/// Returns the factor that makes a scale's gradient as large as a weight's: https://arxiv.org/abs/1902.08153, section
/// 2.2.
double gradient_scale(std::int64_t count, std::int64_t largest) {
  return 1 / std::sqrt(static_cast<double>(count) * static_cast<double>(largest));
}

/// Returns a batch's share in the average of https://arxiv.org/abs/1712.05877, which forgets. The first batches count
/// alike, so that the very first does not dominate a short training.
at::Tensor share_of_batch(const at::Tensor& num_seen) {
  return num_seen.to(at::kFloat).add(1).reciprocal().clamp_min(kRangeAverage);
}

/// Returns the level of 0 among symmetric levels.
std::int64_t middle_level(const RoundingLevels& levels) {
  return std::int64_t{1} << (levels.bits - 1);
}

/// Adds the parameter times 0, so that all ranks have a gradient for it.
at::Tensor with_idle(const at::Tensor& value, const at::Tensor* step) {
  return step == nullptr ? value : value.add(step->sum().mul(0));
}

}  // namespace

ActivationRounding::ActivationRounding(ScaleSource step_size, const RoundingLevels& levels)
    : shape_(levels),
      largest_((std::int64_t{1} << levels.bits) - 1),
      low_(buffer("low", {}, at::kFloat, 0)),
      high_(buffer("high", {}, at::kFloat, 0)),
      num_seen_(buffer("num_seen", {}, at::kLong, 0)),
      step_(step_size == ScaleSource::learned ? &parameter("step", {1}, model::Init::constant(1)) : nullptr),
      learning_(step_ == nullptr ? nullptr : &buffer("learning", {}, at::kLong, 0)),
      zero_at_(step_ == nullptr ? nullptr : &buffer("zero_point", {1}, at::kFloat, 0)) {}

void ActivationRounding::watch(const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const auto [low, high] = at::aminmax(value.detach());
  const at::Tensor share = share_of_batch(num_seen_);
  low_.lerp_(low.to(at::kFloat), share);
  high_.lerp_(high.to(at::kFloat), share);
  num_seen_.add_(1);
}

bool ActivationRounding::is_learning() const {
  const std::int64_t bits = step_ == nullptr ? 0 : learning_->item<std::int64_t>();
  if (bits != 0 && bits != shape_.bits)
    throw core::Error("quantization.activation_bits: steps were learned for " + std::to_string(bits) +
                      " bits, and activations have " + std::to_string(shape_.bits) + " here")
        .hint("quantization.activation_bits: " + std::to_string(bits) + "; auto depends on the CPU");
  return bits != 0;
}

ActivationRounding::Range ActivationRounding::observed() const {
  const at::Tensor low = low_.clamp_max(0);
  const at::Tensor high = high_.clamp_min(0);
  if (shape_.activations == ActivationScheme::symmetric) {
    const at::Tensor even = at::maximum(high, low.neg()).div(static_cast<double>(middle_level(shape_) - 1));
    return {.scale = even.clamp_min(kSmallestScale).view({1}),
            .zero_point = at::full_like(low_, middle_level(shape_)).view({1})};
  }
  const at::Tensor scale = high.sub(low).div(static_cast<double>(largest_)).clamp_min(kSmallestScale).view({1});
  return {.scale = scale, .zero_point = low.neg().view({1}).div(scale).round().clamp(0, static_cast<double>(largest_))};
}

void ActivationRounding::begin_learning() {
  if (is_learning()) return;
  const at::NoGradGuard no_grad;
  const Range range = observed();
  zero_at_->copy_(range.zero_point);
  step_->copy_(range.scale);
  learning_->fill_(shape_.bits);
}

at::Tensor ActivationRounding::operator()(const at::Tensor& value, const RoundingPhase& phase) {
  if (phase.watches && is_training() && !runtime::Recomputation::is_running()) watch(value);
  if (!phase.rounds) return with_idle(value, step_);
  const at::Tensor floats = value.to(at::kFloat);
  if (step_ == nullptr) {
    const Range range = observed();
    return at::fake_quantize_per_tensor_affine(floats, range.scale, range.zero_point.to(at::kInt), 0, largest_)
        .to(value.scalar_type());
  }
  begin_learning();
  // A step is a distance: what the optimizer makes negative stands for its magnitude.
  return at::_fake_quantize_learnable_per_tensor_affine(floats, step_->abs().clamp_min(kSmallestScale), *zero_at_, 0,
                                                        largest_, gradient_scale(value.numel(), largest_))
      .to(value.scalar_type());
}

std::optional<QParams> ActivationRounding::levels() const {
  if (num_seen_.item<std::int64_t>() == 0) return std::nullopt;
  const Range range = is_learning()
                          ? Range{.scale = step_->detach().abs().clamp_min(kSmallestScale), .zero_point = *zero_at_}
                          : observed();
  return QParams{.scale = range.scale.item<double>(), .zero_point = std::llround(range.zero_point.item<double>())};
}

WeightRounding::WeightRounding(ScaleSource step_size, const at::Tensor& weight, std::int64_t out_dim)
    : out_dim_(out_dim),
      scales_(buffer("scale", {weight.size(out_dim)}, at::kFloat, 1)),
      num_seen_(buffer("num_seen", {}, at::kLong, 0)),
      step_(step_size == ScaleSource::learned ? &parameter("step", {weight.size(out_dim)}, model::Init::constant(1))
                                              : nullptr),
      learning_(step_ == nullptr ? nullptr : &buffer("learning", {}, at::kLong, 0)) {}

at::Tensor WeightRounding::operator()(const at::Tensor& weight, const RoundingPhase& phase) {
  if (phase.watches && is_training() && !runtime::Recomputation::is_running()) {
    const at::NoGradGuard no_grad;
    std::vector<std::int64_t> others;
    for (std::int64_t dim = 0; dim < weight.dim(); ++dim)
      if (dim != out_dim_) others.push_back(dim);
    scales_.copy_(weight.detach().abs().amax(others).div(127.5).clamp_min(kSmallestScale));
    num_seen_.add_(1);
  }
  if (!phase.rounds) return with_idle(weight, step_);
  const at::Tensor zero = at::zeros_like(scales_);
  if (step_ == nullptr)
    return at::fake_quantize_per_channel_affine(weight, scales_, zero.to(at::kInt), out_dim_, kLowestLevel,
                                                kHighestLevel);
  if (learning_->item<std::int64_t>() == 0) {
    const at::NoGradGuard no_grad;
    step_->copy_(scales_);
    learning_->fill_(1);
  }
  return at::_fake_quantize_learnable_per_channel_affine(
      weight, step_->abs().clamp_min(kSmallestScale), zero, out_dim_, kLowestLevel, kHighestLevel,
      gradient_scale(weight.numel() / weight.size(out_dim_), kHighestLevel));
}

at::Tensor WeightRounding::scales() const {
  if (num_seen_.item<std::int64_t>() == 0) return {};
  const bool learned = step_ != nullptr && learning_->item<std::int64_t>() != 0;
  return learned ? step_->detach().abs().clamp_min(kSmallestScale) : scales_;
}

at::Tensor rounded_rows(const at::Tensor& rows) {
  const at::Tensor flat = rows.flatten(0, -2);
  const at::Tensor floats = flat.detach().to(at::kFloat);
  const at::Tensor change = dequantize(quantize_rows(floats, scales_of_rows(floats))).sub_(floats);
  return flat.add(change.to(rows.scalar_type())).view(rows.sizes());
}

}  // namespace trainctl::quantization

#include "quantization/observer/observer.h"

#include <ATen/ops/aminmax.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainctl::quantization {
namespace {

constexpr double kAverageOver = 0.01;  // torch.ao's averaging_constant

}  // namespace

QParams levels_of(Range range, std::int64_t bits, ActivationScheme activations) {
  const double low = std::min(range.low, 0.0);
  const double high = std::max(range.high, 0.0);
  if (activations == ActivationScheme::symmetric) {
    const std::int64_t middle = std::int64_t{1} << (bits - 1);
    const double scale = std::max(-low, high) / static_cast<double>(middle - 1);
    return {.scale = std::max(scale, kSmallestScale), .zero_point = middle};
  }
  const auto largest = static_cast<double>((std::int64_t{1} << bits) - 1);
  const double scale = std::max((high - low) / largest, kSmallestScale);
  const double zero_point = std::clamp(-std::nearbyint(low / scale), 0.0, largest);
  return {.scale = scale, .zero_point = static_cast<std::int64_t>(zero_point)};
}

void Histogram::widen() {
  std::vector<double> wider(kBins, 0.0);
  for (std::int64_t bin = 0; bin < kBins; ++bin)
    wider[static_cast<std::size_t>(kBins / 4 + bin / 2)] += counts_[static_cast<std::size_t>(bin)];
  counts_ = std::move(wider);
  width_ *= 2;
}

void Histogram::add(const at::Tensor& values) {
  const at::Tensor flat = values.detach().to(at::kFloat).contiguous();
  const auto count = flat.numel();
  if (count == 0) return;
  const float* data = flat.const_data_ptr<float>();
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(static_cast<double>(data[i])));
  if (counts_.empty()) {
    counts_.assign(kBins, 0.0);
    width_ = std::max(largest, 1e-12) * 2 / kBins;
  }
  while (largest > width_ * (kBins / 2)) widen();
  const double inverse = 1 / width_;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bin = static_cast<std::int64_t>(std::floor(static_cast<double>(data[i]) * inverse)) + kBins / 2;
    counts_[static_cast<std::size_t>(std::clamp<std::int64_t>(bin, 0, kBins - 1))] += 1;
  }
}

void Observer::observe(const at::Tensor& values) {
  if (values.numel() == 0) return;
  const auto [low, high] = at::aminmax(values.detach());
  const Range now{.low = low.item<double>(), .high = high.item<double>()};
  if (!std::isfinite(now.low) || !std::isfinite(now.high)) throw core::Error("an activation isn't finite");
  if (!seen_)
    seen_ = now;
  else if (options_.range == RangeFrom::moving_average)
    seen_ = Range{.low = seen_->low + kAverageOver * (now.low - seen_->low),
                  .high = seen_->high + kAverageOver * (now.high - seen_->high)};
  else
    seen_ = Range{.low = std::min(seen_->low, now.low), .high = std::max(seen_->high, now.high)};
  if (options_.range != RangeFrom::min_max && options_.range != RangeFrom::moving_average) histogram_.add(values);
}

Range Observer::range() const {
  core::ensure(seen_.has_value(), "a range is asked of what was seen");
  const Range all{.low = std::min(seen_->low, 0.0), .high = std::max(seen_->high, 0.0)};
  switch (options_.range) {
    case RangeFrom::min_max:
    case RangeFrom::moving_average:
      return all;
    case RangeFrom::histogram:
      return least_error_range(histogram_, all, options_);
    case RangeFrom::entropy:
      return least_divergence_range(histogram_, all, options_.bits);
    case RangeFrom::percentile:
      return percentile_range(histogram_, all, options_.percentile);
  }
  throw std::logic_error("unknown observer");
}

QParams Observer::levels() const {
  return levels_of(range(), options_.bits, options_.activations);
}

}  // namespace trainctl::quantization

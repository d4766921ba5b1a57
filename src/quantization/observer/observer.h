// What a tensor's values looked like over a calibration, and the range of levels that suits them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "quantization/backend.h"

namespace trainctl::quantization {

struct Range {
  double low = 0;
  double high = 0;
};

/// Counts in bins of equal width around 0; the width doubles, two bins becoming one, when a value falls outside.
class Histogram {
 public:
  static constexpr std::int64_t kBins = 4096;
  void add(const at::Tensor& values);
  bool is_empty() const { return counts_.empty(); }
  double width() const { return width_; }
  /// The middle of a bin.
  double centre(std::int64_t bin) const { return (static_cast<double>(bin - kBins / 2) + 0.5) * width_; }
  const std::vector<double>& counts() const { return counts_; }

 private:
  void widen();
  double width_ = 0;
  std::vector<double> counts_;
};

struct ObserverOptions {
  RangeFrom range = RangeFrom::histogram;
  double percentile = 99.99;
  std::int64_t bits = 8;
  ActivationScheme activations = ActivationScheme::affine;
};

class Observer {
 public:
  explicit Observer(const ObserverOptions& options) : options_(options) {}
  /// Values that aren't finite are an Error.
  void observe(const at::Tensor& values);
  /// Including 0.
  Range range() const;
  QParams levels() const;

 private:
  ObserverOptions options_;
  std::optional<Range> seen_;  // of moving_average: the average
  Histogram histogram_;
};

/// `bits` levels, one of which is 0. affine: from low to high, as torch.ao's quint8. symmetric: 0 is the middle one, so
/// that levels less the middle are those of a signed byte.
QParams levels_of(Range range, std::int64_t bits, ActivationScheme activations = ActivationScheme::affine);

/// The range inside `seen` whose levels have the least squared error (greedily from both ends, as torch.ao's
/// HistogramObserver).
Range least_error_range(const Histogram& histogram, Range seen, const ObserverOptions& options);
/// The range whose levels keep the distribution best: https://on-demand.gputechconf.com/gtc/2017/presentation/
/// s7310-8-bit-inference-with-tensorrt.pdf
Range least_divergence_range(const Histogram& histogram, Range seen, std::int64_t bits);
/// `percentile` percent of the values lie within the range. Each end but 0 cuts an equal share of the others.
Range percentile_range(const Histogram& histogram, Range seen, double percentile);

}  // namespace trainctl::quantization

// Ranges of activations.
#include "quantization/observer/observer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>

#include <catch2/catch.hpp>

#include "core/error.h"

namespace trainctl::quantization::observer_test {
namespace {

/// Most values between -1 and 1, one at 20.
at::Tensor with_outlier() {
  return at::cat({at::linspace(-1, 1, 20'000), at::full({1}, 20.0)});
}

Range range_of(RangeFrom from, const at::Tensor& values) {
  Observer observer({.range = from, .percentile = 99.9, .bits = 8});
  observer.observe(values);
  return observer.range();
}

}  // namespace

TEST_CASE("levels hold 0 exactly and reach both ends", "[quantization]") {
  const QParams both = levels_of({-1, 3}, 8);
  CHECK(both.scale == Approx(4.0 / 255));
  CHECK(both.zero_point == 64);
  const QParams positive = levels_of({0.5, 2}, 7);
  CHECK(positive.scale == Approx(2.0 / 127));
  CHECK(positive.zero_point == 0);
  CHECK(levels_of({0, 0}, 8).scale > 0);
}

TEST_CASE("min_max keeps outliers, and the others let them go", "[quantization]") {
  CHECK(range_of(RangeFrom::min_max, with_outlier()).high == Approx(20));
  // One value alone costs least squares more than all others' rounding gains.
  CHECK(range_of(RangeFrom::histogram, with_outlier()).high < 20);
  for (const RangeFrom from : {RangeFrom::entropy, RangeFrom::percentile}) {
    const Range range = range_of(from, with_outlier());
    INFO(config::name_of(from));
    CHECK(range.high < 10);
    CHECK(range.high > 0.9);
    CHECK(range.low < -0.9);
  }
}

TEST_CASE("without outliers all values are kept", "[quantization]") {
  for (const RangeFrom from :
       {RangeFrom::min_max, RangeFrom::moving_average, RangeFrom::histogram, RangeFrom::entropy}) {
    const Range range = range_of(from, at::linspace(0, 6, 10'000));
    INFO(config::name_of(from));
    CHECK(range.low == 0);
    CHECK(range.high == Approx(6).epsilon(0.03));
  }
}

TEST_CASE("a percentile is the share of values within both ends", "[quantization][regression]") {
  const auto range_of_98 = [](const at::Tensor& values) {
    Observer observer({.range = RangeFrom::percentile, .percentile = 98, .bits = 8});
    observer.observe(values);
    return observer.range();
  };
  const Range both = range_of_98(at::linspace(-1, 1, 20'000));
  CHECK(both.low == Approx(-0.98).margin(0.005));
  CHECK(both.high == Approx(0.98).margin(0.005));
  const Range positive = range_of_98(at::linspace(0, 1, 20'000));
  CHECK(positive.low == 0);
  CHECK(positive.high == Approx(0.98).margin(0.005));
}

TEST_CASE("a histogram widens as values come, and loses none", "[quantization]") {
  Histogram histogram;
  histogram.add(at::linspace(-1, 1, 1000));
  histogram.add(at::linspace(-9, 30, 1000));
  double count = 0;
  double sum = 0;
  for (std::int64_t bin = 0; bin < Histogram::kBins; ++bin) {
    count += histogram.counts()[static_cast<std::size_t>(bin)];
    sum += histogram.counts()[static_cast<std::size_t>(bin)] * histogram.centre(bin);
  }
  CHECK(count == 2000);
  CHECK(sum == Approx(10'500).epsilon(0.01));
}

TEST_CASE("a moving average follows the batches' ends", "[quantization]") {
  Observer observer({.range = RangeFrom::moving_average});
  observer.observe(at::linspace(-1, 1, 10));
  observer.observe(at::linspace(-2, 3, 10));
  CHECK(observer.range().high == Approx(1.02));
  CHECK(observer.range().low == Approx(-1.01));
}

TEST_CASE("activations that aren't finite are an error", "[quantization]") {
  Observer observer(ObserverOptions{});
  CHECK_THROWS_AS(observer.observe(at::full({3}, std::numeric_limits<double>::infinity())), core::Error);
}

}  // namespace trainctl::quantization::observer_test

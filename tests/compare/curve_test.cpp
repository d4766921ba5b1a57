#include "compare/curve.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

namespace trainctl::compare {
namespace {

Curve ramp(std::int64_t count) {
  Curve curve{.name = "loss", .points = {}};
  for (std::int64_t step = 0; step < count; ++step)
    curve.points.push_back({.step = step,
                            .seconds = 0.5 * static_cast<double>(step),
                            .value = std::sin(1e-3 * static_cast<double>(step))});
  return curve;
}

bool has(const Curve& curve, std::int64_t step) {
  return std::ranges::find(curve.points, step, &CurvePoint::step) != curve.points.end();
}

TEST_CASE("a short curve stays as it is", "[compare]") {
  CHECK(thin(ramp(100), 100).points.size() == 100);
  CHECK(thin(ramp(0), 100).points.empty());
}

TEST_CASE("a long curve keeps its ends, its spikes, and its order", "[compare]") {
  Curve curve = ramp(100'000);
  curve.points[54'321].value = 40;
  curve.points[54'322].value = -40;
  const Curve thinned = thin(curve, 500);
  CHECK(thinned.points.size() <= 500);
  CHECK(thinned.points.size() > 450);
  CHECK(thinned.points.front().step == 0);
  CHECK(thinned.points.back().step == 99'999);
  CHECK(has(thinned, 54'321));
  CHECK(has(thinned, 54'322));
  CHECK(std::ranges::is_sorted(thinned.points, {}, &CurvePoint::step));
}

TEST_CASE("where a long curve isn't finite, the thinned one has a gap", "[compare]") {
  Curve curve = ramp(10'000);
  curve.points[777].value = NAN;
  const Curve thinned = thin(curve, 100);
  CHECK(std::ranges::count_if(thinned.points, [](const CurvePoint& point) { return std::isnan(point.value); }) == 1);
}

}  // namespace
}  // namespace trainctl::compare

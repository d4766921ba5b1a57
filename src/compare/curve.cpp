#include "compare/curve.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trainctl::compare {
namespace {

using Iterator = std::vector<CurvePoint>::const_iterator;

/// Adds the extremes of a range of points. NaN is no extreme, but one NaN per range is kept as a gap in the line.
void add_extremes(Iterator begin, Iterator end, std::vector<CurvePoint>& points) {
  std::vector<Iterator> kept;
  Iterator least = end, greatest = end, gap = end;
  for (Iterator point = begin; point != end; ++point) {
    if (std::isnan(point->value)) {
      gap = point;
      continue;
    }
    if (least == end || point->value < least->value) least = point;
    if (greatest == end || point->value > greatest->value) greatest = point;
  }
  for (const Iterator point : {least, greatest, gap})
    if (point != end && std::find(kept.begin(), kept.end(), point) == kept.end()) kept.push_back(point);
  std::sort(kept.begin(), kept.end());
  for (const Iterator point : kept) points.push_back(*point);
}

}  // namespace

Curve thin(const Curve& curve, std::size_t most) {
  core::ensure(most >= 4, "a curve has a few points");
  if (curve.points.size() <= most) return curve;
  Curve thinned{.name = curve.name, .points = {}};
  // The first and the last point stay, since readers look there.
  thinned.points.push_back(curve.points.front());
  const std::size_t stretches = (most - 2) / 2, inner = curve.points.size() - 2;
  const Iterator first = curve.points.begin() + 1;
  for (std::size_t i = 0; i < stretches; ++i)
    add_extremes(first + static_cast<std::ptrdiff_t>(inner * i / stretches),
                 first + static_cast<std::ptrdiff_t>(inner * (i + 1) / stretches), thinned.points);
  thinned.points.push_back(curve.points.back());
  return thinned;
}

}  // namespace trainctl::compare

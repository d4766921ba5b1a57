// What a run recorded of one figure, against its steps and its time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::compare {

struct CurvePoint {
  std::int64_t step = 0;
  double seconds = 0;  // that steps and evaluations had taken by then
  double value = 0;    // NaN where the run recorded one
};

struct Curve {
  std::string name;  // "loss", "lr", …; of evaluations "eval accuracy"
  std::vector<CurvePoint> points;
};

/// At most about `most` points that look the same: of each stretch the least and the greatest value, where they were.
Curve thin(const Curve& curve, std::size_t most);

}  // namespace trainctl::compare

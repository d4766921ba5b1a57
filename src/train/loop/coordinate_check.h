// How the sizes of a network's values depend on its width: the coordinate check of muP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "tracking/event.h"

namespace trainctl::train {

struct CoordinateOptions {
  std::vector<std::int64_t> widths;  // two or more, rising
  std::int64_t steps = 5;            // updates, all at the peak learning rate
  std::int64_t seeds = 3;            // networks that are averaged
};

/// What a block gives at each width.
struct BlockCoordinates {
  std::string name;
  std::vector<double> first;   // mean absolute value before training, at each width
  std::vector<double> change;  // mean absolute difference that the updates make, at each width
  double slope = 0;            // of log(change) over log(width); 0: the updates have the same effect at each width
};

struct CoordinateCheck {
  CoordinateOptions options;
  std::vector<BlockCoordinates> blocks;  // in the order of the network

  /// Returns the block with the largest slope beyond ±kLargestSlope; null: none is beyond.
  const BlockCoordinates* failure() const;
};

/// Mean absolute values of few seeds and finite widths vary; a wrong parametrization has slopes of about ½ or more.
inline constexpr double kLargestSlope = 0.25;

/// Trains the experiment's network at each width for a few steps of the experiment's own data. Compares what each block
/// gives for the first batch before and after (https://arxiv.org/abs/2203.03466, appendix D.1). In one process, without
/// dropout in what is compared. The network has all widths: see model::size_without().
CoordinateCheck check_coordinates(const experiment::Experiment& experiment, const CoordinateOptions& options,
                                  std::vector<tracking::Notice>& notices);

}  // namespace trainctl::train

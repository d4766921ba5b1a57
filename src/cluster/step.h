// The time of one step: the pipeline's timeline, what of the communication is exposed, and the optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/layer.h"
#include "pipeline/timeline.h"

namespace trainctl::cluster {

/// Returns the number of layers of each stage, as Megatron deals them. Stages are equal if that is possible, or if the
/// embedding and the head count as a layer each. Otherwise the first stages have one more.
std::vector<std::int64_t> deal_layers(std::int64_t num_layers, const Layout& layout);
/// Returns the number of layers of each stage, as the setup's framework deals them.
std::vector<std::int64_t> deal_layers(const Setup& setup);

/// The rank of a pipeline that has this stage.
std::int64_t rank_of_stage(std::int64_t stage, const Layout& layout);

/// Sums values of stages by the rank that holds them.
std::vector<double> sums_by_rank(const std::vector<double>& of_stages, const Layout& layout);

/// Returns the parameters of each rank of a pipeline, whose stages have these layers.
std::vector<double> parameters_of_ranks(const Setup& setup, const std::vector<std::int64_t>& layers);

/// Seconds of a step and of what makes it.
struct StepTime {
  LayerTimes layer;
  ForwardBackward embedding;
  ForwardBackward head;
  std::vector<std::int64_t> layers;  // of each stage
  double straggler = 1;              // factor on all that is computed
  double computed = 0;               // of the busiest stage, its exposed tensor and context communication included
  double bubble = 0;                 // in which that stage waits for others, transfers included
  double transfer = 0;               // of one activation between stages
  double exposed_shards = 0;         // gathers and reductions of sharded parameters
  double exposed_copies = 0;         // sums between copies
  double exposed_tied = 0;           // sums of a tied embedding between the first and the last stage
  double optimizer = 0;
  double total = 0;

  /// Everything before the optimizer and the sums between copies.
  double pipeline() const { return total - exposed_copies - exposed_tied - optimizer; }
};

StepTime step_time(const Setup& setup);

/// Returns a time that no step of this setup is below: without bubble, and without exposed sums between copies.
double least_step_time(const Setup& setup);

/// Returns the timeline of the first micro-batches, at most `most`, for a picture.
pipeline::Timeline first_timeline(const Setup& setup, std::int64_t most);

}  // namespace trainctl::cluster

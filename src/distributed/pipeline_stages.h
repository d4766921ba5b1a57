// How a model's blocks are dealt to the stages of a pipeline, and stages to ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/device_mesh.h"
#include "distributed/config.h"
#include "model/model.h"
#include "pipeline/operations.h"

namespace trainctl::distributed {

/// The places on the pipeline axis of the rank that has the embedding, and of that with the head that multiplies by its
/// weight.
struct WeightLoan {
  std::int64_t owner = 0;
  std::int64_t borrower = 0;
};

struct PipelineStages {
  pipeline::Schedule schedule;
  std::vector<double> costs;              // of all blocks, relative
  std::vector<model::BlockRange> ranges;  // the blocks of each stage
  std::vector<std::int64_t> ranks;        // the place on the pipeline axis of the rank that holds each stage
  std::optional<WeightLoan> loan;         // none: the head has its own weight, or one rank has both
};

/// Makes or reads a schedule. Throws Error if it has another number of ranks or micro-batches.
pipeline::Schedule make_schedule(const PipelineScheduleConfig& config, std::int64_t num_ranks,
                                 std::int64_t num_micro_batches);

/// Makes or reads the schedule, and checks that it ends. Leaves in the model only the blocks that rank `rank` of the
/// pipeline holds. Throws Error if the schedule has another number of ranks or micro-batches, or if the model has too
/// few blocks.
PipelineStages cut_model(const DistributedConfig& config, std::int64_t rank, std::int64_t micro_batches,
                         model::Model& model);

/// Cuts `costs`, one for each block, into runs, one for each stage; none is empty. `ranks`: of the stages. With a stage
/// each, the dearest one is as cheap as can be; with several, ranks have about equal sums.
std::vector<model::BlockRange> split_by_cost(const std::vector<double>& costs, const std::vector<std::int64_t>& ranks);

}  // namespace trainctl::distributed

#include "distributed/pipeline_stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "model/layers/embedding.h"

namespace trainctl::distributed {
namespace {

pipeline::Schedule make(const OneFOneBConfig&, std::int64_t ranks, std::int64_t micro_batches) {
  return pipeline::one_forward_one_backward(ranks, micro_batches);
}
pipeline::Schedule make(const GpipeConfig&, std::int64_t ranks, std::int64_t micro_batches) {
  return pipeline::gpipe(ranks, micro_batches);
}
pipeline::Schedule make(const InterleavedConfig& config, std::int64_t ranks, std::int64_t micro_batches) {
  return pipeline::interleaved(ranks, config.stages_per_rank, micro_batches);
}
pipeline::Schedule make(const ZeroBubbleVConfig&, std::int64_t ranks, std::int64_t micro_batches) {
  return pipeline::zero_bubble_v(ranks, micro_batches);
}
pipeline::Schedule make(const ScheduleFileConfig& config, std::int64_t ranks, std::int64_t micro_batches) {
  pipeline::Schedule schedule = pipeline::read_schedule(core::read_file(config.file), config.file);
  if (schedule.num_ranks() != ranks)
    throw core::Error(config.file + " has " + std::to_string(schedule.num_ranks()) + " lines, one for each rank, and " +
                      "distributed.pipeline is " + std::to_string(ranks));
  if (schedule.num_micro_batches != micro_batches)
    throw core::Error(config.file + " has " + std::to_string(schedule.num_micro_batches) +
                      " micro-batches, and a step of this run has " + std::to_string(micro_batches))
        .hint("accumulation.steps: " + std::to_string(schedule.num_micro_batches));
  return schedule;
}

/// Returns the elements of the matrices and filters by which a block multiplies, for each token or pixel about.
double cost_of(const model::Model& model, const model::Block& block) {
  double cost = 0;
  block.layer->visit_layers([&](const std::string&, model::Layer& layer) {
    if (dynamic_cast<model::Embedding*>(&layer) != nullptr) return;  // is looked up
    layer.visit_own_parameters([&](const model::TensorDecl& decl) {
      if (decl.value.dim() > 1) cost += static_cast<double>(decl.value.numel());
    });
  });
  const auto* head = dynamic_cast<const model::VocabularyHead*>(block.layer);
  const bool is_shared = head != nullptr && model.shared_head_weight();
  return is_shared ? cost + static_cast<double>(head->weight().numel()) : cost;
}

std::vector<model::BlockRange> ranges_of_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<model::BlockRange> ranges;
  std::size_t begin = 0;
  for (const std::int64_t size : sizes) {
    ranges.push_back({.begin = begin, .end = begin + static_cast<std::size_t>(size)});
    begin = ranges.back().end;
  }
  return ranges;
}

std::vector<model::BlockRange> split(const SplitByCostConfig&, const PipelineStages& stages) {
  return split_by_cost(stages.costs, stages.ranks);
}
std::vector<model::BlockRange> split(const SplitByCountConfig&, const PipelineStages& stages) {
  const auto count = static_cast<std::int64_t>(stages.costs.size());
  const std::int64_t num_stages = stages.schedule.num_stages;
  std::vector<std::int64_t> sizes;
  for (std::int64_t stage = 0; stage < num_stages; ++stage)
    sizes.push_back((stage + 1) * count / num_stages - stage * count / num_stages);
  return ranges_of_sizes(sizes);
}
std::vector<model::BlockRange> split(const SplitByHandConfig& config, const PipelineStages& stages) {
  const std::int64_t num_stages = stages.schedule.num_stages;
  const std::int64_t sum = std::accumulate(config.blocks.begin(), config.blocks.end(), std::int64_t{0});
  const auto count = static_cast<std::int64_t>(stages.costs.size());
  if (sum != count || static_cast<std::int64_t>(config.blocks.size()) != num_stages)
    throw core::Error("distributed.pipeline_split.blocks deals " + std::to_string(sum) + " blocks to " +
                      std::to_string(config.blocks.size()) + " stages, and the model has " + std::to_string(count) +
                      " blocks for " + std::to_string(num_stages) + " stages")
        .hint("the embeddings and the head are a block each");
  return ranges_of_sizes(config.blocks);
}

std::optional<WeightLoan> find_loan(const model::Model& model, const PipelineStages& stages) {
  const model::TensorDecl* const shared = model.shared_head_weight();
  if (shared == nullptr) return std::nullopt;
  std::size_t block = 0;
  for (std::size_t i = 0; i < model.blocks().size(); ++i)
    model.blocks()[i].layer->visit_parameters([&](const std::string&, const model::TensorDecl& decl) {
      if (&decl == shared) block = i;
    });
  std::size_t stage = 0;
  while (stages.ranges[stage].end <= block) ++stage;
  const WeightLoan loan{.owner = stages.ranks[stage], .borrower = stages.ranks.back()};
  if (loan.owner == loan.borrower) return std::nullopt;
  const pipeline::Action& last = stages.schedule.ranks[static_cast<std::size_t>(loan.owner)].back();
  if (last.stage != static_cast<std::int64_t>(stage))
    throw core::Error("the schedule's rank " + std::to_string(loan.owner) + " ends with " + pipeline::text_of(last) +
                      ", and stage " + std::to_string(stage) + " has the embedding that the head shares")
        .hint("let this rank end with the backward pass of stage " + std::to_string(stage));
  for (const std::vector<pipeline::Action>& actions : stages.schedule.ranks)
    for (const pipeline::Action& action : actions)
      if (action.kind == pipeline::ActionKind::backward_input &&
          (action.stage == static_cast<std::int64_t>(stage) || action.stage + 1 == stages.schedule.num_stages))
        throw core::Error("the schedule makes " + pipeline::text_of(action) +
                          ", and the stages of the embedding and of the head share a weight")
            .hint("let these two stages make B instead of I and W");
  return loan;
}

/// Where the runs of blocks begin: cuts[s] is the first block of stage s, and the last element the number of blocks.
using Cuts = std::vector<std::size_t>;

/// The cuts of which the dearest run is as cheap as can be.
Cuts cut_evenly(const std::vector<double>& sums, std::size_t stages) {
  const std::size_t count = sums.size() - 1;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // dearest[s][n]: of the first n blocks in s stages; cut[s][n]: where the last of these begins.
  std::vector<std::vector<double>> dearest(stages + 1, std::vector<double>(count + 1, kNever));
  std::vector<std::vector<std::size_t>> cut(stages + 1, std::vector<std::size_t>(count + 1, 0));
  dearest[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s)
    for (std::size_t n = s; n <= count; ++n)
      for (std::size_t begin = s - 1; begin < n; ++begin) {
        const double most = std::max(dearest[s - 1][begin], sums[n] - sums[begin]);
        if (most >= dearest[s][n]) continue;
        dearest[s][n] = most;
        cut[s][n] = begin;
      }
  Cuts cuts(stages + 1, count);
  for (std::size_t s = stages; s > 0; --s) cuts[s - 1] = cut[s][cuts[s]];
  return cuts;
}

/// Returns the dearest rank's cost, then how unequal the stages are.
std::pair<double, double> load_of(const Cuts& cuts, const std::vector<double>& sums,
                                  const std::vector<std::int64_t>& ranks) {
  std::map<std::int64_t, double> loads;
  double squares = 0;
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    const double cost = sums[cuts[s + 1]] - sums[cuts[s]];
    loads[ranks[s]] += cost;
    squares += cost * cost;
  }
  return {std::ranges::max(loads | std::views::values), squares};
}

}  // namespace

std::vector<model::BlockRange> split_by_cost(const std::vector<double>& costs, const std::vector<std::int64_t>& ranks) {
  std::vector<double> sums(costs.size() + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  Cuts cuts = cut_evenly(sums, ranks.size());
  const bool has_several = std::set(ranks.begin(), ranks.end()).size() < ranks.size();
  for (bool moves = has_several; moves;) {  // a cut by a block, as long as that helps
    moves = false;
    for (std::size_t s = 1; s < ranks.size(); ++s)
      for (const std::size_t to : {cuts[s] - 1, cuts[s] + 1}) {
        if (to <= cuts[s - 1] || to >= cuts[s + 1]) continue;
        Cuts moved = cuts;
        moved[s] = to;
        if (load_of(moved, sums, ranks) >= load_of(cuts, sums, ranks)) continue;
        cuts = std::move(moved);
        moves = true;
      }
  }
  std::vector<model::BlockRange> ranges;
  for (std::size_t s = 0; s < ranks.size(); ++s) ranges.push_back({.begin = cuts[s], .end = cuts[s + 1]});
  return ranges;
}

pipeline::Schedule make_schedule(const PipelineScheduleConfig& config, std::int64_t num_ranks,
                                 std::int64_t num_micro_batches) {
  return config.visit([&](const auto& how) { return make(how, num_ranks, num_micro_batches); });
}

PipelineStages cut_model(const DistributedConfig& config, std::int64_t rank, std::int64_t micro_batches,
                         model::Model& model) {
  PipelineStages stages{.schedule = make_schedule(config.pipeline_schedule, config.pipeline, micro_batches)};
  pipeline::check_order(pipeline::operations_of(stages.schedule));
  const std::int64_t num_stages = stages.schedule.num_stages;
  if (static_cast<std::size_t>(num_stages) > model.blocks().size())
    throw core::Error("the pipeline has " + std::to_string(num_stages) + " stages, and the model only " +
                      std::to_string(model.blocks().size()) + " blocks")
        .hint("a smaller distributed.pipeline, or fewer stages_per_rank");
  for (const model::Block& block : model.blocks()) stages.costs.push_back(cost_of(model, block));
  stages.ranks = stages.schedule.rank_of_stages();
  stages.ranges = config.pipeline_split.visit([&](const auto& how) { return split(how, stages); });
  stages.loan = find_loan(model, stages);
  std::vector<model::BlockRange> kept;
  for (std::size_t stage = 0; stage < stages.ranges.size(); ++stage)
    if (stages.ranks[stage] == rank) kept.push_back(stages.ranges[stage]);
  model.keep_blocks(kept);
  return stages;
}

}  // namespace trainctl::distributed

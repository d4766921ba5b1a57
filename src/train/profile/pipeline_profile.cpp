#include "train/profile/pipeline_profile.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "core/error.h"
#include "pipeline/timeline.h"

namespace trainctl::train {
namespace {

using pipeline::Action;
using pipeline::ActionKind;

/// What a rank tells of its steps, as doubles. First come its place, whether it is in the first column, and the number
/// of its steps. Then come its means of computing and of the pass's end, and three numbers of each action.
struct Told {
  static constexpr std::int64_t kNumbers = 5;
  static constexpr std::int64_t kActionNumbers = 3;  // mean time; begin and end in the last step

  const double* numbers;
  std::size_t place() const { return static_cast<std::size_t>(numbers[0]); }
  bool is_in_first_column() const { return numbers[1] != 0; }
  bool has_steps() const { return numbers[2] != 0; }
  double compute_ms() const { return numbers[3]; }
  double end_ms() const { return numbers[4]; }
  const double* action(std::size_t index) const {
    return numbers + kNumbers + static_cast<std::ptrdiff_t>(index) * kActionNumbers;
  }
};

void tell(const Run& run, const std::vector<profiler::PipelineStep>& steps, std::size_t num_actions, double* numbers) {
  bool is_first = true;
  for (const comm::Axis axis : {comm::Axis::data, comm::Axis::shard, comm::Axis::context, comm::Axis::tensor})
    is_first = is_first && run.mesh->place(axis) == 0;
  numbers[0] = static_cast<double>(run.mesh->place(comm::Axis::pipeline));
  numbers[1] = is_first ? 1 : 0;
  numbers[2] = static_cast<double>(steps.size());
  for (const profiler::PipelineStep& step : steps) {
    core::ensure(step.size() == num_actions, "a recorded step has all actions of the schedule");
    const double share = 1 / static_cast<double>(steps.size());
    numbers[4] += share * step.back().end_ms;
    for (std::size_t i = 0; i < step.size(); ++i) {
      double* own = numbers + Told::kNumbers + static_cast<std::ptrdiff_t>(i) * Told::kActionNumbers;
      const double duration = step[i].end_ms - step[i].begin_ms;
      numbers[3] += share * duration;
      own[0] += share * duration;
      own[1] = step[i].begin_ms;
      own[2] = step[i].end_ms;
    }
  }
}

/// The gradients of weights as a share of a backward pass, where it isn't split: GPT-2's on a CPU, measured in zbv.
constexpr double kWeightShare = 0.4;

/// The mean times of one micro-batch's passes, ms.
struct MeasuredTimes {
  std::map<std::pair<ActionKind, std::int64_t>, double> actions;  // by stage
  double transfer = 0;                                            // of a result

  double of(const Action& action) const { return actions.at({action.kind, action.stage}); }
};

/// The times of each block, of which those of other stages can be made.
struct BlockTimes {
  std::vector<double> forward;
  std::vector<double> backward;

  double of(const Action& action, const model::BlockRange& range) const {
    const std::vector<double>& times = action.kind == ActionKind::forward ? forward : backward;
    const double whole = std::accumulate(times.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                         times.begin() + static_cast<std::ptrdiff_t>(range.end), 0.0);
    if (action.kind == ActionKind::backward_weight) return whole * kWeightShare;
    return action.kind == ActionKind::backward_input ? whole * (1 - kWeightShare) : whole;
  }
};

/// Divides what a stage takes among its blocks by their costs.
BlockTimes block_times(const distributed::PipelineStages& stages, const MeasuredTimes& times) {
  BlockTimes blocks{.forward = std::vector<double>(stages.costs.size()),
                    .backward = std::vector<double>(stages.costs.size())};
  for (const auto& [action, ms] : times.actions) {
    const model::BlockRange& range = stages.ranges[static_cast<std::size_t>(action.second)];
    std::vector<double>& of = action.first == ActionKind::forward ? blocks.forward : blocks.backward;
    double sum = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) sum += stages.costs[i];
    for (std::size_t i = range.begin; i < range.end; ++i)
      of[i] += ms * (sum > 0 ? stages.costs[i] / sum : 1 / static_cast<double>(range.end - range.begin));
  }
  return blocks;
}

using Alternative = profiler::PipelineSummary::Alternative;

/// Simulates other ways to make the same step.
class Alternatives {
 public:
  Alternatives(const Run& run, const MeasuredTimes& times)
      : config_(run.experiment.distributed),
        run_(run),
        stages_(*run.stages),
        times_(times),
        blocks_(block_times(stages_, times)) {}

  std::vector<Alternative> find() {
    try_smaller_micro_batches();
    try_kind(distributed::OneFOneBConfig{});
    try_kind(distributed::InterleavedConfig{});
    try_kind(distributed::ZeroBubbleVConfig{});
    try_measured_split();
    return std::move(found_);
  }

 private:
  void add(std::vector<profiler::Change> changes, const pipeline::Schedule& schedule,
           const std::function<double(const Action&)>& compute) {
    const pipeline::Timeline timeline = pipeline::simulate(schedule, {.compute = compute, .transfer = times_.transfer});
    found_.push_back({.changes = std::move(changes), .pass_ms = timeline.duration});
  }

  bool takes(const distributed::PipelineScheduleConfig& how, std::int64_t micro_batches) const {
    return how.get_if<distributed::InterleavedConfig>() == nullptr ||
           pipeline::has_equal_rounds(stages_.schedule.num_ranks(), micro_batches);
  }

  void try_smaller_micro_batches() {
    const std::int64_t batch = run_.experiment.dataset.samples_per_batch();
    if (batch % 2 != 0 || config_.pipeline_schedule.get_if<distributed::ScheduleFileConfig>() != nullptr) return;
    if (!takes(config_.pipeline_schedule, 2 * run_.micro_batches)) return;
    add({{"accumulation.steps", std::to_string(2 * run_.experiment.accumulation.steps)},
         {"dataset.batch_size", std::to_string(batch / 2)}},
        distributed::make_schedule(config_.pipeline_schedule, stages_.schedule.num_ranks(), 2 * run_.micro_batches),
        [&](const Action& action) { return times_.of(action) / 2; });
  }

  void try_kind(const distributed::PipelineScheduleConfig& how) {
    if (how.kind() == config_.pipeline_schedule.kind()) return;
    const std::int64_t num_ranks = stages_.schedule.num_ranks();
    const std::int64_t num_stages = config::facts_of(how).stages_per_rank * num_ranks;
    if (num_stages > static_cast<std::int64_t>(stages_.costs.size())) return;
    if (!takes(how, run_.micro_batches)) return;
    const pipeline::Schedule schedule = distributed::make_schedule(how, num_ranks, run_.micro_batches);
    const std::vector<model::BlockRange> ranges = distributed::split_by_cost(stages_.costs, schedule.rank_of_stages());
    std::vector<profiler::Change> changes{{"distributed.pipeline_schedule", std::string(how.kind())}};
    if (config_.pipeline_split.kind() != distributed::SplitByCostConfig::kind)
      changes.push_back({"distributed.pipeline_split", "cost"});
    add(std::move(changes), schedule,
        [&](const Action& action) { return blocks_.of(action, ranges[static_cast<std::size_t>(action.stage)]); });
  }

  /// The stages that would be cut with the measured times as costs.
  void try_measured_split() {
    std::vector<double> costs;
    for (std::size_t i = 0; i < stages_.costs.size(); ++i) costs.push_back(blocks_.forward[i] + blocks_.backward[i]);
    const std::vector<model::BlockRange> ranges = distributed::split_by_cost(costs, stages_.ranks);
    if (std::ranges::equal(ranges, stages_.ranges, {}, &model::BlockRange::end, &model::BlockRange::end)) return;
    std::string sizes;
    for (const model::BlockRange& range : ranges)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(range.end - range.begin);
    add({{"distributed.pipeline_split", "{kind: by_hand, blocks: [" + sizes + "]}"}}, stages_.schedule,
        [&](const Action& action) { return blocks_.of(action, ranges[static_cast<std::size_t>(action.stage)]); });
  }

  const distributed::DistributedConfig& config_;
  const Run& run_;
  const distributed::PipelineStages& stages_;
  const MeasuredTimes& times_;
  BlockTimes blocks_;
  std::vector<Alternative> found_;
};

/// Reads what the ranks have told into a summary without alternatives; times of the first column's last step.
profiler::PipelineSummary summary_of(const Run& run, const std::vector<Told>& ranks, MeasuredTimes& times) {
  const pipeline::Schedule& schedule = run.stages->schedule;
  const std::size_t num_places = schedule.ranks.size();
  profiler::PipelineSummary summary{.schedule = std::string(run.experiment.distributed.pipeline_schedule.kind()),
                                    .ranks = std::vector<profiler::PipelineRank>(num_places),
                                    .alternatives = {}};
  pipeline::Timeline timeline{.ranks = std::vector<std::vector<pipeline::TimedAction>>(num_places)};
  for (const Told& told : ranks) {
    profiler::PipelineRank& rank = summary.ranks[told.place()];
    rank.compute_ms += told.compute_ms() * static_cast<double>(num_places) / static_cast<double>(ranks.size());
    summary.pass_ms = std::max(summary.pass_ms, told.end_ms());
    if (!told.is_in_first_column()) continue;
    const std::vector<Action>& actions = schedule.ranks[told.place()];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const double* own = told.action(i);
      rank.actions.push_back({.name = pipeline::text_of(actions[i]), .time = {.begin_ms = own[1], .end_ms = own[2]}});
      timeline.ranks[told.place()].push_back({.action = actions[i], .begin = own[1], .end = own[2]});
      times.actions[{actions[i].kind, actions[i].stage}] += own[0] / static_cast<double>(schedule.num_micro_batches);
    }
  }
  const std::vector<double> transfers = pipeline::transfer_times(schedule, timeline);
  double transferred = 0;
  for (std::size_t place = 0; place < num_places; ++place) {
    profiler::PipelineRank& rank = summary.ranks[place];
    rank.transfer_ms = std::min(transfers[place], std::max(0.0, summary.pass_ms - rank.compute_ms));
    rank.bubble_ms = std::max(0.0, summary.pass_ms - rank.compute_ms - rank.transfer_ms);
    for (std::size_t stage = 0; stage < run.stages->ranks.size(); ++stage)
      if (run.stages->ranks[stage] == static_cast<std::int64_t>(place))
        rank.stages.push_back(static_cast<std::int64_t>(stage));
    transferred += transfers[place];
  }
  const std::int64_t hops = 2 * (schedule.num_stages - 1) * schedule.num_micro_batches;
  times.transfer = hops > 0 ? transferred / static_cast<double>(hops) : 0;
  return summary;
}

}  // namespace

void compare_stages(Run& run, const std::vector<profiler::PipelineStep>& steps,
                    profiler::DistributedSummary& distributed) {
  if (!run.stages) return;
  const pipeline::Schedule& schedule = run.stages->schedule;
  std::size_t most_actions = 0;
  for (const std::vector<Action>& actions : schedule.ranks) most_actions = std::max(most_actions, actions.size());
  const std::int64_t length = Told::kNumbers + static_cast<std::int64_t>(most_actions) * Told::kActionNumbers;
  comm::Group& world = run.mesh->world();
  const at::Tensor own = at::zeros({length}, at::kDouble);
  const auto place = static_cast<std::size_t>(run.mesh->place(comm::Axis::pipeline));
  tell(run, steps, schedule.ranks[place].size(), own.mutable_data_ptr<double>());
  const at::Tensor all = at::zeros({world.size() * length}, at::kDouble);
  world.all_gather(all, own)->wait();
  std::vector<Told> ranks;
  for (std::int64_t rank = 0; rank < world.size(); ++rank)
    ranks.push_back({all.const_data_ptr<double>() + rank * length});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    distributed.ranks[rank].stage = static_cast<std::int64_t>(ranks[rank].place());
    distributed.ranks[rank].stage_wait_ms = ranks[rank].end_ms() - ranks[rank].compute_ms();
  }
  if (!std::ranges::all_of(ranks, &Told::has_steps)) return;

  MeasuredTimes times;
  profiler::PipelineSummary& summary = distributed.pipeline.emplace(summary_of(run, ranks, times));
  summary.simulated_ms =
      pipeline::simulate(
          schedule, {.compute = [&](const Action& action) { return times.of(action); }, .transfer = times.transfer})
          .duration;
  summary.alternatives = Alternatives(run, times).find();
}

}  // namespace trainctl::train

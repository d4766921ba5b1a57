#include "train/profile/pipeline_profile.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
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

/// The mean times of one micro-batch's passes through the stages, ms.
struct StageTimes {
  std::map<std::pair<ActionKind, std::int64_t>, double> mean;
  double forward = 0;   // of all stages
  double backward = 0;  // likewise
  double transfer = 0;  // of a result

  double of(const Action& action) const { return mean.at({action.kind, action.stage}); }
  /// If the stages were equal.
  double even(const Action& action, std::int64_t num_stages) const {
    const double whole = action.kind == ActionKind::forward    ? forward
                         : action.kind == ActionKind::backward ? backward
                                                               : backward / 2;
    return whole / static_cast<double>(num_stages);
  }
};

/// The other ways to make the same step that a simulation can judge.
std::vector<profiler::PipelineSummary::Alternative> alternatives_of(const Run& run, const StageTimes& times) {
  const distributed::DistributedConfig& config = run.experiment.distributed;
  const distributed::PipelineStages& stages = *run.stages;
  const std::int64_t num_ranks = stages.schedule.num_ranks();
  std::vector<profiler::PipelineSummary::Alternative> found;
  const auto try_schedule = [&](std::vector<profiler::Change> changes, const distributed::PipelineScheduleConfig& how,
                                std::int64_t micro_batches, const auto& compute) {
    try {
      const pipeline::Schedule schedule = distributed::make_schedule(how, num_ranks, micro_batches);
      const std::int64_t num_stages = schedule.num_stages;
      if (num_stages > static_cast<std::int64_t>(stages.ranges.back().end)) return;  // more than blocks
      const pipeline::Timeline timeline = pipeline::simulate(
          schedule,
          {.compute = [&](const Action& action) { return compute(action, num_stages); }, .transfer = times.transfer});
      found.push_back({.changes = std::move(changes), .pass_ms = timeline.duration});
    } catch (const core::Error&) {  // a number of micro-batches that the schedule doesn't take
    }
  };
  const auto even = [&](const Action& action, std::int64_t num_stages) { return times.even(action, num_stages); };
  const auto halved = [&](const Action& action, std::int64_t) { return times.of(action) / 2; };
  const std::string schedule(config.pipeline_schedule.kind());
  const std::int64_t batch = run.experiment.dataset.samples_per_batch();
  if (batch % 2 == 0 && schedule != distributed::ScheduleFileConfig::kind)
    try_schedule({{"accumulation.steps", std::to_string(2 * run.experiment.accumulation.steps)},
                  {"dataset.batch_size", std::to_string(batch / 2)}},
                 config.pipeline_schedule, 2 * run.micro_batches, halved);
  const auto try_kind = [&](const distributed::PipelineScheduleConfig& how) {
    if (how.kind() != schedule)
      try_schedule({{"distributed.pipeline_schedule", std::string(how.kind())}}, how, run.micro_batches, even);
  };
  try_kind(distributed::OneFOneBConfig{});
  try_kind(distributed::InterleavedConfig{});
  try_kind(distributed::ZeroBubbleVConfig{});
  if (config.pipeline_split.kind() != distributed::SplitByCostConfig::kind)
    try_schedule({{"distributed.pipeline_split", "cost"}}, config.pipeline_schedule, run.micro_batches, even);
  return found;
}

/// Reads what the ranks have told into a summary without alternatives; times of the first column's last step.
profiler::PipelineSummary summary_of(const Run& run, const std::vector<Told>& ranks, StageTimes& times) {
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
      const double mean = own[0] / static_cast<double>(schedule.num_micro_batches);
      times.mean[{actions[i].kind, actions[i].stage}] += mean;
      (actions[i].kind == ActionKind::forward ? times.forward : times.backward) += mean;
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

std::optional<profiler::PipelineSummary> compare_stages(Run& run, const std::vector<profiler::PipelineStep>& steps) {
  if (!run.stages) return std::nullopt;
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
  if (!std::ranges::all_of(ranks, &Told::has_steps)) return std::nullopt;

  StageTimes times;
  profiler::PipelineSummary summary = summary_of(run, ranks, times);
  summary.simulated_ms =
      pipeline::simulate(
          schedule, {.compute = [&](const Action& action) { return times.of(action); }, .transfer = times.transfer})
          .duration;
  summary.alternatives = alternatives_of(run, times);
  return summary;
}

}  // namespace trainctl::train

// The ranks of a pipeline compared, with times that a simulation made.
#include "train/profile/pipeline_profile.h"

#include <mutex>

#include "pipeline/timeline.h"
#include "ranks.h"

namespace trainctl::train {

using namespace testing;

TEST_CASE("ranks of a pipeline see the same bubble, transfer and alternatives", "[train][dist][pipeline]") {
  Setting setting{.global_batch = 32, .num_samples = 320, .micro_batches = 4, .language_model = true, .pipeline = 2};
  experiment::Experiment experiment = experiment_of(setting, 4);  // two rows of two stages
  std::get<model::Gpt2Config>(experiment.model.network.value).num_layers = 4;
  experiment.distributed.pipeline_schedule = distributed::GpipeConfig{};
  const pipeline::Schedule schedule = pipeline::gpipe(2, 4);
  const pipeline::Timeline timeline = pipeline::simulate(
      schedule,
      {.compute =
           [](const pipeline::Action& action) { return action.kind == pipeline::ActionKind::forward ? 10.0 : 20.0; },
       .transfer = 1});
  std::mutex mutex;
  std::vector<profiler::PipelineSummary> summaries;
  on_ranks(4, [&](std::size_t, comm::Group& group) {
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = 4});
    profiler::PipelineStep step;
    const auto place = static_cast<std::size_t>(run->mesh->place(comm::Axis::pipeline));
    for (const pipeline::TimedAction& timed : timeline.ranks[place])
      step.push_back({.begin_ms = timed.begin, .end_ms = timed.end});
    profiler::DistributedSummary seen{.ranks = std::vector<profiler::RankSummary>(4)};
    compare_stages(*run, {}, seen);
    CHECK_FALSE(seen.pipeline);  // nothing was recorded
    compare_stages(*run, {step, step}, seen);
    std::optional<profiler::PipelineSummary> summary = std::move(seen.pipeline);
    const profiler::RankSummary& mine = seen.ranks[static_cast<std::size_t>(group.rank())];
    CHECK(mine.stage == run->mesh->place(comm::Axis::pipeline));
    CHECK(mine.stage_wait_ms == Approx(timeline.ranks[place].back().end - 4 * 30));
    const std::lock_guard lock(mutex);
    REQUIRE(summary);
    summaries.push_back(std::move(*summary));
  });
  REQUIRE(summaries.size() == 4);
  const profiler::PipelineSummary& first = summaries.front();
  CHECK(first.schedule == "gpipe");
  CHECK(first.pass_ms == Approx(timeline.duration));
  REQUIRE(first.ranks.size() == 2);
  CHECK(first.ranks[1].stages == std::vector<std::int64_t>{1});
  CHECK(first.ranks[1].actions.front().name == "1F0");
  for (const profiler::PipelineRank& rank : first.ranks) {
    CHECK(rank.compute_ms == Approx(4 * 30));
    CHECK(rank.transfer_ms == Approx(1));
    CHECK(rank.compute_ms + rank.transfer_ms + rank.bubble_ms == Approx(timeline.duration));
  }
  CHECK(first.bubble() == Approx((timeline.duration - 121) / timeline.duration));
  CHECK(first.simulated_ms == Approx(timeline.duration).epsilon(0.01));  // the mean transfer is of all results
  std::map<std::string, double> passes;
  for (const auto& [changes, pass_ms] : first.alternatives) passes[changes[0].key + " " + changes[0].value] = pass_ms;
  // 1f1b, interleaved_1f1b, zbv and smaller micro-batches; the measured times cut the stages as they are, or otherwise.
  CHECK(passes.size() >= 4);
  CHECK(passes.at("distributed.pipeline_schedule 1f1b") == Approx(first.simulated_ms).epsilon(0.01));
  CHECK(passes.at("distributed.pipeline_schedule zbv") < passes.at("distributed.pipeline_schedule interleaved_1f1b"));
  CHECK(passes.at("accumulation.steps 8") < first.simulated_ms - 10);
  for (const profiler::PipelineSummary& other : summaries) CHECK(other.bubble() == first.bubble());
}

}  // namespace trainctl::train

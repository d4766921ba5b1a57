// What a pipeline's schedule is for, in real steps: how long ranks wait, and how much they keep.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "pipeline/operations.h"
#include "pipeline/timeline.h"
#include "ranks.h"

namespace trainctl::train {

using namespace testing;

namespace {

constexpr std::chrono::milliseconds kUnit{80};

/// One rank's blocks that take time: a unit for the forward pass, one for the gradient of the input, one for those of
/// the weights. Threads that sleep need no core.
class SlowedBlocks {
 public:
  explicit SlowedBlocks(model::Model& model) {
    model.set_block_runner(
        [this](const model::Block& block, const at::Tensor& input, const model::SequenceContext& context) {
          at::Tensor output = block.forward(input, context);
          if (!is_slow(block.name)) return output;
          sleep();
          most_live_ = std::max(most_live_, ++live_);
          output.register_hook([this](const at::Tensor& gradient) {
            sleep();
            return gradient;
          });
          return output;
        });
    for (const model::NamedTensor& named : model::named_parameters(model))
      if (named.name.ends_with("mlp.c_proj.weight"))
        named.tensor.register_hook([this](const at::Tensor& gradient) {
          sleep();
          --live_;
          return gradient;
        });
  }
  SlowedBlocks(const SlowedBlocks&) = delete;
  SlowedBlocks& operator=(const SlowedBlocks&) = delete;

  void begin() { is_on_ = true; }
  std::int64_t most_live() const { return most_live_; }

 private:
  static bool is_slow(const std::string& name) { return name.starts_with("transformer.h."); }
  void sleep() const {
    if (is_on_) std::this_thread::sleep_for(kUnit);
  }

  bool is_on_ = false;
  std::int64_t live_ = 0;
  std::int64_t most_live_ = 0;
};

struct Watched {
  double units = 0;                     // from the first rank's begin to the last one's end
  std::vector<std::int64_t> most_live;  // micro-batches, times stages, by rank
};

/// A step over `num_ranks`, of a network with a slow block in each stage.
Watched watch(const distributed::PipelineScheduleConfig& schedule, std::int64_t num_ranks, std::int64_t micro_batches) {
  const std::int64_t num_stages = num_ranks * config::facts_of(schedule).stages_per_rank;
  Setting setting{.global_batch = 2 * micro_batches,
                  .num_samples = 8 * micro_batches,
                  .micro_batches = micro_batches,
                  .language_model = true};
  experiment::Experiment experiment = experiment_of(setting, 1);
  std::get<model::Gpt2Config>(experiment.model.network.value).num_layers = num_stages;
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(num_stages), 1);
  ++blocks.front();  // the embeddings
  ++blocks.back();   // the head
  experiment.distributed.how = distributed::DdpConfig{};
  experiment.distributed.pipeline = num_ranks;
  experiment.distributed.pipeline_schedule = schedule;
  experiment.distributed.pipeline_split = distributed::SplitByHandConfig{.blocks = blocks};
  using Clock = std::chrono::steady_clock;
  Watched watched{.most_live = std::vector<std::int64_t>(static_cast<std::size_t>(num_ranks))};
  std::vector<Clock::time_point> begins(static_cast<std::size_t>(num_ranks));
  std::vector<Clock::time_point> ends = begins;
  on_ranks(num_ranks, [&](std::size_t rank, comm::Group& group) {
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = num_ranks});
    SlowedBlocks slowed(*run->model);
    Step step(*run);
    step(GradNorm::only_to_clip);  // allocates, and tells shapes
    slowed.begin();
    group.barrier();
    begins[rank] = Clock::now();
    step(GradNorm::only_to_clip);
    ends[rank] = Clock::now();
    watched.most_live[rank] = slowed.most_live();
  });
  const std::chrono::duration<double> wall =
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
  watched.units = wall / std::chrono::duration<double>(kUnit);
  return watched;
}

/// The step waits as long as the simulator says, which the closed forms of pipeline/schedule_test.cpp hold to.
void check_schedule(const distributed::PipelineScheduleConfig& config, const pipeline::Schedule& schedule) {
  CAPTURE(std::string(config.kind()), schedule.num_ranks(), schedule.num_micro_batches);
  const pipeline::Timeline expected =
      pipeline::simulate(schedule, {.compute = [](const pipeline::Action& action) {
                           return action.kind == pipeline::ActionKind::backward ? 2.0 : 1.0;
                         }});
  const double busy = expected.duration * (1 - expected.bubble());
  const auto bubble = [&](const Watched& step) { return 1 - busy / step.units; };
  Watched watched = watch(config, schedule.num_ranks(), schedule.num_micro_batches);
  // A busy machine delays threads: the shortest of up to four steps counts.
  for (int again = 0; again < 3 && bubble(watched) > expected.bubble() + 0.05; ++again)
    watched.units = std::min(watched.units, watch(config, schedule.num_ranks(), schedule.num_micro_batches).units);
  CHECK(watched.units >= expected.duration);
  CHECK(bubble(watched) == Approx(expected.bubble()).margin(0.05));
  for (std::size_t rank = 0; rank < watched.most_live.size(); ++rank)
    CHECK(watched.most_live[rank] == pipeline::peak_live(schedule.ranks[rank]));
}

}  // namespace

TEST_CASE("ranks of a pipeline wait, and keep micro-batches, as the schedule says", "[train][dist][pipeline]") {
  for (const auto& [ranks, micro_batches] : {std::pair<std::int64_t, std::int64_t>(2, 4), {4, 8}}) {
    check_schedule(distributed::GpipeConfig{}, pipeline::gpipe(ranks, micro_batches));
    check_schedule(distributed::OneFOneBConfig{}, pipeline::one_forward_one_backward(ranks, micro_batches));
    check_schedule(distributed::InterleavedConfig{}, pipeline::interleaved(ranks, 2, micro_batches));
    check_schedule(distributed::ZeroBubbleVConfig{}, pipeline::zero_bubble_v(ranks, micro_batches));
  }
}

}  // namespace trainctl::train

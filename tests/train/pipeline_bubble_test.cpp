// What a pipeline's schedule is for, in real steps: how long ranks wait, and how much they keep. Time is counted, not
// measured: each rank has a clock of its own, which its slow blocks move, and which ranks that meet set to the later
// one.
#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "pipeline/operations.h"
#include "pipeline/timeline.h"
#include "ranks.h"

namespace trainctl::train {

using namespace testing;

namespace {

/// The units of time that a rank's blocks and its waits have taken. Only the rank's thread uses it.
struct RankClock {
  std::int64_t units = 0;
};

/// When the last member came to each meeting.
class Meetings {
 public:
  void enter(const std::string& meeting, std::int64_t units) {
    const std::lock_guard lock(mutex_);
    std::int64_t& latest = latest_[meeting];
    latest = std::max(latest, units);
  }
  /// Returns the time of a meeting to which all members have come.
  std::int64_t time_of(const std::string& meeting) {
    const std::lock_guard lock(mutex_);
    return latest_.at(meeting);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> latest_;
};

/// Waits for the work, and then sets the clock to the meeting's time.
class TimedWork final : public comm::Work {
 public:
  TimedWork(std::unique_ptr<comm::Work> work, std::string meeting, RankClock& clock, Meetings& meetings)
      : work_(std::move(work)), meeting_(std::move(meeting)), clock_(clock), meetings_(meetings) {}
  void wait() override {
    work_->wait();
    clock_.units = std::max(clock_.units, meetings_.time_of(meeting_));
  }
  bool is_done() override { return work_->is_done() && meetings_.time_of(meeting_) <= clock_.units; }

 private:
  std::unique_ptr<comm::Work> work_;
  std::string meeting_;
  RankClock& clock_;
  Meetings& meetings_;
};

/// A group of threads whose meetings cost no time, but end when the last member has come.
class TimedGroup final : public comm::Group {
 public:
  TimedGroup(comm::Group& group, RankClock& clock, Meetings& meetings, std::string name = "all")
      : group_(group), clock_(clock), meetings_(meetings), name_(std::move(name)) {}
  TimedGroup(std::unique_ptr<comm::Group> group, RankClock& clock, Meetings& meetings, std::string name)
      : owned_(std::move(group)), group_(*owned_), clock_(clock), meetings_(meetings), name_(std::move(name)) {}

  std::int64_t rank() const override { return group_.rank(); }
  std::int64_t size() const override { return group_.size(); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor tensor, comm::Reduce reduce) override {
    const std::string meeting = enter("all");
    return timed(group_.all_reduce(std::move(tensor), reduce), meeting);
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor mine) override {
    const std::string meeting = enter("all");
    return timed(group_.all_gather(std::move(all), std::move(mine)), meeting);
  }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor mine, at::Tensor all) override {
    const std::string meeting = enter("all");
    return timed(group_.reduce_scatter(std::move(mine), std::move(all)), meeting);
  }
  std::unique_ptr<comm::Work> broadcast(at::Tensor tensor, std::int64_t root) override {
    const std::string meeting = enter("all");
    return timed(group_.broadcast(std::move(tensor), root), meeting);
  }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor all, at::Tensor mine) override {
    const std::string meeting = enter("all");
    return timed(group_.all_to_all(std::move(all), std::move(mine)), meeting);
  }
  std::unique_ptr<comm::Work> isend(at::Tensor tensor, std::int64_t to) override {
    const std::string meeting = enter(transfer(rank(), to));
    return timed(group_.isend(std::move(tensor), to), meeting);
  }
  std::unique_ptr<comm::Work> irecv(at::Tensor tensor, std::int64_t from) override {
    const std::string meeting = enter(transfer(from, rank()));
    return timed(group_.irecv(std::move(tensor), from), meeting);
  }
  void barrier() override {
    const std::string meeting = enter("all");
    group_.barrier();
    clock_.units = std::max(clock_.units, meetings_.time_of(meeting));
  }
  const std::vector<std::int64_t>& nodes() const override { return group_.nodes(); }
  std::unique_ptr<comm::Group> split(const std::string& name, const std::vector<std::int64_t>& members) override {
    std::string path = name_ + "/" + name;
    for (const std::int64_t member : members) path += " " + std::to_string(member);
    path += " (" + std::to_string(++num_meetings_[path]) + ")";
    return std::make_unique<TimedGroup>(group_.split(name, members), clock_, meetings_, path);
  }

 private:
  static std::string transfer(std::int64_t from, std::int64_t to) {
    return std::to_string(from) + " to " + std::to_string(to);
  }
  /// Returns the name of this member's next meeting of the kind.
  std::string enter(const std::string& kind) {
    const std::string meeting = name_ + ": " + kind + " #" + std::to_string(++num_meetings_[kind]);
    meetings_.enter(meeting, clock_.units);
    return meeting;
  }
  std::unique_ptr<comm::Work> timed(std::unique_ptr<comm::Work> work, const std::string& meeting) {
    return std::make_unique<TimedWork>(std::move(work), meeting, clock_, meetings_);
  }

  std::unique_ptr<comm::Group> owned_;
  comm::Group& group_;
  RankClock& clock_;
  Meetings& meetings_;
  std::string name_;
  std::map<std::string, std::int64_t> num_meetings_;  // of this member, by kind
};

/// One rank's blocks that take time: a unit for the forward pass, one for the gradient of the input, one for those of
/// the weights.
class SlowedBlocks {
 public:
  SlowedBlocks(model::Model& model, RankClock& clock) : clock_(clock) {
    model.set_block_runner(
        [this](const model::Block& block, const at::Tensor& input, const model::SequenceContext& context) {
          at::Tensor output = block.forward(input, context);
          if (!is_slow(block.name)) return output;
          ++clock_.units;
          most_live_ = std::max(most_live_, ++live_);
          output.register_hook([this](const at::Tensor& gradient) {
            ++clock_.units;
            return gradient;
          });
          return output;
        });
    for (const model::NamedTensor& named : model::named_parameters(model))
      if (named.name.ends_with("mlp.c_proj.weight"))
        named.tensor.register_hook([this](const at::Tensor& gradient) {
          ++clock_.units;
          --live_;
          return gradient;
        });
  }
  SlowedBlocks(const SlowedBlocks&) = delete;
  SlowedBlocks& operator=(const SlowedBlocks&) = delete;

  std::int64_t most_live() const { return most_live_; }

 private:
  static bool is_slow(const std::string& name) { return name.starts_with("transformer.h."); }

  RankClock& clock_;
  std::int64_t live_ = 0;
  std::int64_t most_live_ = 0;
};

struct Watched {
  std::int64_t units = 0;               // until the last rank's end
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
  Watched watched{.most_live = std::vector<std::int64_t>(static_cast<std::size_t>(num_ranks))};
  std::vector<RankClock> clocks(static_cast<std::size_t>(num_ranks));
  Meetings meetings;
  on_ranks(num_ranks, [&](std::size_t rank, comm::Group& threads) {
    RankClock& clock = clocks[rank];
    TimedGroup group(threads, clock, meetings);
    std::vector<tracking::Notice> notices;
    const std::unique_ptr<Run> run = build(experiment, notices, {.group = &group, .local_world_size = num_ranks});
    SlowedBlocks slowed(*run->model, clock);
    Step step(*run);
    step(GradNorm::only_to_clip);  // allocates, and tells shapes
    group.barrier();
    const std::int64_t begin = clock.units;  // the same for all ranks
    step(GradNorm::only_to_clip);
    clock.units -= begin;
    watched.most_live[rank] = slowed.most_live();
  });
  watched.units = std::ranges::max_element(clocks, {}, &RankClock::units)->units;
  return watched;
}

/// The step waits as long as the simulator says, which the closed forms of pipeline/schedule_test.cpp hold to.
void check_schedule(const distributed::PipelineScheduleConfig& config, const pipeline::Schedule& schedule) {
  CAPTURE(std::string(config.kind()), schedule.num_ranks(), schedule.num_micro_batches);
  const pipeline::Timeline expected =
      pipeline::simulate(schedule, {.compute = [](const pipeline::Action& action) {
                           return action.kind == pipeline::ActionKind::backward ? 2.0 : 1.0;
                         }});
  const Watched watched = watch(config, schedule.num_ranks(), schedule.num_micro_batches);
  CHECK(static_cast<double>(watched.units) == expected.duration);
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

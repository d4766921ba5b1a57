#include "plan/dry_run.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "checkpoint/snapshot.h"
#include "core/error.h"
#include "core/text.h"
#include "dataset/batch_spec.h"
#include "plan/fake/fake_group.h"
#include "plan/fake/fake_loader.h"
#include "plan/memory/kernel_calls.h"
#include "plan/memory/kernel_memory.h"
#include "plan/memory/memory_tracker.h"
#include "plan/memory/span_phases.h"
#include "plan/one_rank.h"
#include "plan/sent_numbers.h"
#include "pretrained/weights_source.h"
#include "runtime/fake_tensor.h"
#include "train/loop/step.h"
#include "train/run/initial_weights.h"
#include "train/run/run.h"

namespace trainctl::plan {
namespace {

constexpr std::size_t kTimelinePoints = 400;

/// The device of fake tensors. Autograd needs the library of its tensors' device, so the step of a GPU runs as one of
/// the CPU. The tensors saved for the backward pass are the same; only the memory of kernels and collectives differs.
const c10::Device kDevice{c10::DeviceType::CPU};

dataset::BatchSpecHints hints_of(const model::ModelConfig& config, const DryRunOptions& options) {
  const model::OwnSizes sizes = sizes_of(config.network);
  dataset::BatchSpecHints hints{.assumes_sizes = options.assumes_sizes, .longest_text = options.longest_text};
  hints.num_classes = sizes.num_classes.value.value_or(0);
  hints.vocab_size = sizes.vocab_size.value.value_or(0);
  if (options.data == nullptr) return hints;
  hints.num_classes = options.data->num_classes;
  if (options.data->vocab_size > 0) hints.vocab_size = options.data->vocab_size;
  if (options.data->table != nullptr) hints.num_columns = options.data->input_shape.front();
  return hints;
}

/// A visitor that reports the tensors of a component to the tracker.
class Assigning final : public runtime::State {
 public:
  Assigning(MemoryTracker& log, Purpose purpose) : log_(log), purpose_(purpose) {}
  void tensor(const std::string&, at::Tensor& value) override { log_.assign(value, purpose_); }
  void part(const std::string&, at::Tensor& stretch, const runtime::PartOf&) override {
    log_.assign(stretch, purpose_);
  }
  void integer(const std::string&, std::int64_t&) override {}
  void number(const std::string&, double&) override {}
  void text(const std::string&, std::string&) override {}

 private:
  MemoryTracker& log_;
  Purpose purpose_;
};

/// An optimizer that reports the gradients to the tracker before its update.
class WatchedOptimizer final : public optimizer::Optimizer {
 public:
  WatchedOptimizer(std::unique_ptr<optimizer::Optimizer> inner, train::Run& run, MemoryTracker& log)
      : inner_(std::move(inner)), run_(run), log_(log) {}

  void step(double lr, const at::Tensor& found_inf) override {
    assign_gradients();
    inner_->step(lr, found_inf);
  }
  bool works_on_the_way() const override { return inner_->works_on_the_way(); }
  void step_on_the_way(double lr, const at::Tensor& found_inf, const optimizer::OnTheWay& more) override {
    assign_gradients();
    inner_->step_on_the_way(lr, found_inf, more);
  }
  void visit_state(runtime::State& state) override { inner_->visit_state(state); }
  bool eval() override { return inner_->eval(); }
  void train() override { inner_->train(); }

 private:
  void assign_gradients() const {
    for (const at::Tensor& gradient : optimizer::gradients_of(run_.parameters))
      log_.assign(gradient, Purpose::gradients);
    for (const model::NamedTensor& named : model::named_parameters(*run_.model))
      log_.assign(named.tensor.grad(), Purpose::gradients);
  }

  std::unique_ptr<optimizer::Optimizer> inner_;
  train::Run& run_;
  MemoryTracker& log_;
};

/// A scope in which allocations belong to a block.
class InBlock {
 public:
  InBlock(MemoryTracker& log, const std::string& block) : log_(log) { log_.enter_block(block); }
  ~InBlock() { log_.enter_block(""); }
  InBlock(const InBlock&) = delete;
  InBlock& operator=(const InBlock&) = delete;

 private:
  MemoryTracker& log_;
};

void watch_blocks(model::Model& model, MemoryTracker& log) {
  model.set_block_runner([inner = model.block_runner(), &log](const model::Block& block, const at::Tensor& input,
                                                              const model::SequenceContext& context) {
    const InBlock in_block(log, block.name);
    return inner ? inner(block, input, context) : block.forward(input, context);
  });
}

/// Which rank of a pipeline is run, and what those before it sent.
struct PipelinePlace {
  std::int64_t rank = 0;
  SentNumbers sent_numbers{};
};

class DryRun {
 public:
  DryRun(const experiment::Experiment& experiment, const DryRunOptions& options, PipelinePlace& place)
      : options_(options),
        kernels_(*log_, options.workspaces == nullptr ? own_workspaces_ : *options.workspaces),
        scope_(kDevice, log_, kernel_memory()),
        phases_(*log_),
        group_(fake_group({.world = options.world,
                           .rank = options.world / experiment.distributed.pipeline * place.rank,
                           .copies = options.device == PlannedDevice::cpu,
                           .sent_bytes = &sent_bytes_,
                           .sent_numbers = &place.sent_numbers},
                          *log_)) {
    log_->enter_phase("build");
    const auto open_data = [&](const dataset::LoaderOptions& loading) {
      dataset::Datasets data;
      const dataset::BatchSpec batches =
          dataset::outline(experiment.dataset, loading, hints_of(experiment.model, options));
      data.train = fake_loader(batches, experiment.dataset, loading.share, *log_);
      return data;
    };
    const train::DryRunSetup setup{
        .device = kDevice, .open_data = open_data, .checks_initial_weights = options.checks_initial_weights};
    std::vector<tracking::Notice> notices;
    run_ = train::build(as_one_rank(experiment, options), notices, {.group = group_.get(), .dry_run = &setup});
    for (const model::NamedTensor& named : model::named_parameters(*run_->model))
      log_->assign(named.tensor, Purpose::parameters);
    for (const optimizer::OptimizedParameter& one : run_->parameters) log_->assign(one.tensor, Purpose::parameters);
    for (const model::NamedTensor& named : model::named_buffers(*run_->model))
      log_->assign(named.tensor, Purpose::buffers);
    if (run_->ema) {
      Assigning averages(*log_, Purpose::averages);
      run_->parallel->visit_averages(averages, *run_->ema);
    }
    Assigning slots(*log_, Purpose::optimizer);
    run_->optimizer->visit_state(slots);
    run_->optimizer = std::make_unique<WatchedOptimizer>(std::move(run_->optimizer), *run_, *log_);
    watch_blocks(*run_->model, *log_);
    communication_ = communication_memory(experiment.distributed, *run_);
    for (const at::Tensor& tensor : communication_.gradients) log_->assign(tensor, Purpose::gradients);
    for (const at::Tensor& tensor : communication_.compression) log_->assign(tensor, Purpose::communication);
    communication_.attach(*run_);
  }

  model::InputSpec input() const { return train::input_spec(run_->data.train->spec()); }

  DryRunStep go() {
    const std::int64_t micro_batches = run_->micro_batches;
    constexpr std::int64_t kMostMicroBatches = 1024;
    if (options_.around_step && micro_batches > kMostMicroBatches)
      throw core::Error("a step of " + core::format_count(micro_batches) +
                        " micro-batches is too long to plan, which takes " + core::format_count(kMostMicroBatches) +
                        " at most");
    train::Step step(*run_);
    if (!run_->stages) run_->micro_batches = 1;  // else the schedule has them all
    step(train::GradNorm::measure);              // the first allocates what stays
    communication_.attach(*run_);
    // All but the last are alike in what they hold.
    const bool runs_all = options_.around_step || run_->stages;
    run_->micro_batches = runs_all ? micro_batches : std::min<std::int64_t>(micro_batches, 2);
    const std::int64_t begin = log_->now();
    const std::int64_t kept = log_->held_now();
    const std::vector<checkpoint::Snapshot> written_meanwhile = copies_for_checkpoints();
    sent_bytes_ = 0;
    const auto second = [&] { step(train::GradNorm::only_to_clip); };
    if (options_.around_step)
      options_.around_step(second);
    else
      second();
    kernels_.settle();
    const MemoryTracker::Peak peak = log_->peak(0, log_->now());
    const dataset::SampleSpec& spec = run_->data.train->spec();
    return {
        .at_peak = peak.held,
        .peak = peak.moment,
        .kept_bytes = kept,
        .blocks = in_order(peak.blocks),
        .timeline = log_->timeline(begin, log_->now(), kTimelinePoints),
        .num_parameters = run_->num_parameters,
        .num_own_parameters = model::num_parameters(*run_->model),
        .num_trained = num_trained(),
        .num_sharing_gradients = run_->mesh->gradients().size(),
        .sent_bytes = sent_bytes_,
        .flops_per_sample = static_cast<double>(train::sequences_per_sample(spec)) * run_->model->flops_per_sample(),
        .batch_size = run_->experiment.dataset.samples_per_batch(),
        .micro_batches = micro_batches,
        .global_batch = run_->global_batch,
        .tokens_per_sample = spec.tokens_per_sample()};
  }

 private:
  runtime::HollowScratch kernel_memory() {
    if (options_.device == PlannedDevice::cuda) return &cuda_kernel_memory;
    return [this](const c10::OperatorHandle& op, const torch::jit::Stack& stack) { return kernels_.bound(op, stack); };
  }
  /// Copies the state as the run does for its checkpoints and snapshots. Returns the copies that writers hold beside
  /// the steps that follow. The copies of a GPU's tensors are the host's.
  std::vector<checkpoint::Snapshot> copies_for_checkpoints() {
    std::vector<checkpoint::Snapshot> copies;
    if (options_.device != PlannedDevice::cpu) return copies;
    log_->enter_phase("checkpoint");
    log_->set_purpose(Purpose::checkpoint);
    {
      const optimizer::AveragedWeights averaged(*run_->optimizer);
      checkpoint::ShownState state;
      run_->visit_state(state);
      const checkpoint::CheckpointConfig& config = run_->experiment.checkpoint;
      const checkpoint::Division division{.index = run_->mesh->world().rank(), .count = run_->mesh->world().size()};
      const bool precedes_steps = (config.every > 0 && config.every < run_->length.total_steps) || config.best;
      if (config.async && precedes_steps)
        copies.push_back(checkpoint::copy_state(state, division, checkpoint::Lifetime::own));
      else
        checkpoint::copy_state(state, division, checkpoint::Lifetime::lent);
      if (config.in_memory)
        copies.push_back(checkpoint::copy_state(
            state, {.index = division.index, .count = division.count, .copies = checkpoint::Copies::each},
            checkpoint::Lifetime::own));
    }
    log_->set_purpose(std::nullopt);
    return copies;
  }

  std::int64_t num_trained() const {
    std::int64_t count = 0;
    for (const model::NamedTensor& named : model::named_parameters(*run_->model))
      if (named.tensor.requires_grad()) count += named.tensor.numel();
    return count;
  }

  std::vector<BlockMemory> in_order(const std::vector<BlockMemory>& found) const {
    std::vector<BlockMemory> ordered;
    for (const model::Block& block : run_->model->blocks())
      for (const BlockMemory& memory : found)
        if (memory.block == block.name) ordered.push_back(memory);
    for (const BlockMemory& memory : found)
      if (memory.block.empty()) ordered.push_back(memory);
    return ordered;
  }

  const DryRunOptions& options_;
  std::shared_ptr<MemoryTracker> log_ = std::make_shared<MemoryTracker>();
  KernelWorkspaces own_workspaces_;
  KernelCalls kernels_;
  runtime::FakeTensorScope scope_;
  SpanPhases phases_;
  double sent_bytes_ = 0;
  std::unique_ptr<comm::Group> group_;
  CommunicationMemory communication_;
  std::unique_ptr<train::Run> run_;
};

/// Returns the ranks of a pipeline that are run: all, or of many the first two, one in the middle, and the last two.
std::vector<std::int64_t> ranks_to_run(std::int64_t pipeline) {
  constexpr std::int64_t kMostRanks = 16;
  if (pipeline > kMostRanks) return {0, 1, pipeline / 2, pipeline - 2, pipeline - 1};
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(pipeline));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

DryRunStep run_pipeline(const experiment::Experiment& experiment, const DryRunOptions& options) {
  DryRunOptions plain = options;
  plain.around_step = nullptr;
  const experiment::Experiment shortened = with_fewest_micro_batches(experiment);
  PipelinePlace place;
  DryRunStep fullest;
  std::vector<StageMemory> stages;
  for (const std::int64_t rank : ranks_to_run(experiment.distributed.pipeline)) {
    place.rank = rank;
    DryRunStep step = DryRun(shortened, plain, place).go();
    stages.push_back({.rank = rank, .peak_bytes = step.at_peak.total(), .kept_bytes = step.kept_bytes});
    if (stages.size() == 1 || step.at_peak.total() > fullest.at_peak.total()) fullest = std::move(step);
  }
  fullest.stages = std::move(stages);
  fullest.micro_batches = experiment.accumulation.steps;
  fullest.global_batch = fullest.global_batch / shortened.accumulation.steps * experiment.accumulation.steps;
  return fullest;
}

}  // namespace

DryRunStep dry_run_step(const experiment::Experiment& experiment, const DryRunOptions& options) {
  try {
    if (experiment.distributed.pipeline > 1) return run_pipeline(experiment, options);
    PipelinePlace alone;
    return DryRun(experiment, options, alone).go();
  } catch (const c10::Error& error) {
    throw core::Error("cannot run a step without values: " + std::string(error.what_without_backtrace()))
        .hint("the planner doesn't know an operator of this model, task or optimizer");
  }
}

void dry_build(const experiment::Experiment& given) {
  experiment::Experiment experiment = given;
  experiment.distributed = distributed::without_parts(experiment.distributed);
  PipelinePlace alone;
  try {
    const model::InputSpec input = DryRun(experiment, {.checks_initial_weights = true}, alone).input();
    model::check_network_file(experiment.model.network, input);
  } catch (const dataset::OnlyDataTells&) {
    if (experiment.model.init_from) pretrained::open_weights(*experiment.model.init_from);
    DryRun(experiment, {.assumes_sizes = true}, alone);
  }
}

}  // namespace trainctl::plan

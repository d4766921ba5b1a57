#include "cluster/step.h"

#include <algorithm>

#include "pipeline/schedule.h"

namespace trainctl::cluster {
namespace {

constexpr double kLeastExposed = 0.1;    // share of a collective that no computation hides
constexpr double kAdapterShare = 0.004;  // of the parameters, that low-rank adapters have
constexpr double kOverlappedPass = 0.9;  // share of a pass behind which a collective can go on

/// Times of each stage for one micro-batch, and of what passes between stages.
struct StageCosts {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> weights;  // what of backward is for the weights' gradients
  double transfer = 0;
  double hold = 0;  // in which a stage waits for its transfer
};

pipeline::Schedule schedule_of(const Layout& layout, std::int64_t num_micro_batches) {
  switch (layout.schedule) {
    case ScheduleKind::gpipe:
      return pipeline::gpipe(layout.pipeline, num_micro_batches);
    case ScheduleKind::zero_bubble_v:
      return pipeline::zero_bubble_v(layout.pipeline, num_micro_batches);
    case ScheduleKind::interleaved:
    case ScheduleKind::one_forward_one_backward:
      break;
  }
  return pipeline::interleaved(layout.pipeline, layout.stages_per_rank, num_micro_batches);
}

pipeline::TimelineCosts timeline_costs(const StageCosts& costs) {
  const auto compute = [&costs](const pipeline::Action& action) {
    const auto stage = static_cast<std::size_t>(action.stage);
    switch (action.kind) {
      case pipeline::ActionKind::forward:
        return costs.forward[stage] + costs.hold;
      case pipeline::ActionKind::backward:
        return costs.backward[stage] + costs.hold;
      case pipeline::ActionKind::backward_input:
        return costs.backward[stage] - costs.weights[stage] + costs.hold;
      case pipeline::ActionKind::backward_weight:
        return costs.weights[stage];
    }
    return 0.0;
  };
  return {.compute = compute, .transfer = costs.transfer};
}

/// The steady state repeats with every round of micro-batches: a long step is extrapolated from two short ones.
double pipeline_duration(const Layout& layout, const StageCosts& costs) {
  const auto duration = [&](std::int64_t num_micro_batches) {
    return pipeline::simulate(schedule_of(layout, num_micro_batches), timeline_costs(costs)).duration;
  };
  const std::int64_t ranks = layout.pipeline;
  const std::int64_t all = layout.num_micro_batches;
  if (all <= 6 * ranks + 8 || (all % ranks != 0 && layout.stages_per_rank > 1)) return duration(all);
  const std::int64_t few = 4 * ranks + all % ranks;
  const double time = duration(few);
  return time + (duration(few + ranks) - time) * static_cast<double>(all - few) / static_cast<double>(ranks);
}

/// Computes `work` while `communication` goes on, which takes multiprocessors away from it.
double overlapped(double work, double communication, double multiprocessor_share) {
  return std::max(communication, work + multiprocessor_share * std::min(work, communication));
}

/// Deals as DeepSpeed's partition_balanced does: each stage takes as many layers as the fullest one has, and the last
/// ones what is left.
std::vector<std::int64_t> fill_stages(std::int64_t num_layers, std::int64_t num_stages) {
  const std::int64_t most = (num_layers + num_stages - 1) / num_stages;
  std::vector<std::int64_t> layers;
  for (std::int64_t after = num_stages - 1; after >= 0; --after) {
    layers.push_back(std::clamp<std::int64_t>(num_layers - after, 0, most));
    num_layers -= layers.back();
  }
  return layers;
}

class StepModel {
 public:
  explicit StepModel(const Setup& setup) : setup_(setup), kernels_(setup.cluster), collectives_(setup.cluster) {
    step_.layer = layer_times(setup);
    step_.head = head_times(setup);
    step_.embedding = embedding_times(setup);
    step_.layers = deal_layers(setup);
    make_stages();
    step_.straggler = straggler_factor(setup.cluster.latencies, setup.layout.world());
    step_.computed = busiest_rank();
    step_.optimizer = optimizer_time();
  }

  const StageCosts& stages() const { return stages_; }
  const StepTime& partly() const { return step_; }

  StepTime time() {
    if (layout().fully_sharded)
      time_sharded();
    else
      time_replicated();
    step_.computed *= step_.straggler;
    step_.bubble *= step_.straggler;
    step_.exposed_shards *= step_.straggler;
    step_.total = step_.computed + step_.bubble + step_.exposed_shards + step_.exposed_copies + step_.exposed_tied +
                  step_.optimizer;
    return step_;
  }

 private:
  const Layout& layout() const { return setup_.layout; }
  const CommunicationHabits& habits() const { return setup_.cluster.software.communication; }
  double num_micro_batches() const { return static_cast<double>(layout().num_micro_batches); }

  void make_stages() {
    for (const std::int64_t layers : step_.layers) {
      stages_.forward.push_back(step_.layer.forward * static_cast<double>(layers));
      stages_.backward.push_back(step_.layer.backward * static_cast<double>(layers));
      stages_.weights.push_back(step_.layer.weight_share() * static_cast<double>(layers));
    }
    stages_.forward.front() += step_.embedding.forward;
    stages_.backward.front() += step_.embedding.backward;
    stages_.forward.back() += step_.head.forward;
    stages_.backward.back() += step_.head.backward;
    if (layout().pipeline == 1) return;
    const bool between_nodes = layout().fully_sharded || layout().world() > setup_.cluster.network.domain;
    const double bytes = 2.0 * static_cast<double>(layout().micro_batch * setup_.model.sequence_length) /
                         static_cast<double>(layout().context) * static_cast<double>(setup_.model.hidden_size) /
                         static_cast<double>(layout().tensor);
    step_.transfer = collectives_.transfer(bytes, between_nodes);
    if (layout().tensor > 1 && !layout().sequence_parallel && !layout().fully_sharded)
      step_.transfer += collectives_.gather(bytes * static_cast<double>(layout().tensor), setup_.tensor_group());
    stages_.transfer = step_.transfer;
    stages_.hold = layout().fully_sharded || habits().transfers_hold_stage ? step_.transfer : 0;
  }

  double busiest_rank() const {
    std::vector<double> sums = sums_by_rank(stages_.forward, layout());
    const std::vector<double> backward = sums_by_rank(stages_.backward, layout());
    for (std::size_t rank = 0; rank < sums.size(); ++rank) sums[rank] += backward[rank];
    return num_micro_batches() * std::ranges::max(sums);
  }

  /// Parameters of the fullest rank.
  double most_parameters() const {
    return std::ranges::max(parameters_of_ranks(setup_, step_.layers)) * (layout().adapters_only ? kAdapterShare : 1);
  }

  double optimizer_time() const {
    const Surface& surface = setup_.cluster.surface;
    const auto copies = static_cast<double>(layout().num_copies());
    double parameters = most_parameters();
    if (layout().fully_sharded)
      parameters = static_cast<double>(setup_.model.num_parameters()) /
                   static_cast<double>(layout().tensor * layout().pipeline) / copies;
    else if (layout().zero >= 1)
      parameters /= copies;
    return kernels_.stream(parameters * setup_.cluster.software.kernels.optimizer_bytes, 0) +
           surface.optimizer_us * 1e-6 * setup_.cluster.software.kernels.launch_scale;
  }

  void time_sharded() {
    const double share = setup_.cluster.network.multiprocessor_share;
    const RankGroup copies = setup_.copies_group();
    const double gathered_bytes =
        layout().precision == Precision::fp8 ? habits().shard_gather_bytes_fp8 : habits().shard_gather_bytes;
    const double parameters = setup_.layer_parameters();
    const double embeddings = setup_.embedding_parameters() * (setup_.model.tied ? 1 : 2);
    const double gather = collectives_.gather(gathered_bytes * parameters, copies);
    const double scatter = collectives_.scatter(habits().shard_reduce_bytes * parameters, copies);
    const double ends = (collectives_.gather(gathered_bytes * embeddings, copies) +
                         collectives_.scatter(habits().shard_reduce_bytes * embeddings, copies)) /
                        2;
    if (layout().pipeline > 1) return time_sharded_pipeline(gather, scatter, ends);
    const double copied = kernels_.stream(parameters * habits().shard_copy_bytes, 4);
    const double again = layout().zero == 3 ? gather : 0;
    const double work = step_.layer.backward + copied;
    const double backward = habits().gathers_before_backward ? again + overlapped(work, scatter, share)
                                                             : overlapped(work, again + scatter, share);
    const double first = overlapped(step_.layer.forward, gather, share) + backward;
    const double later = layout().zero == 2 ? step_.layer.forward + backward : first;
    const double layers = static_cast<double>(setup_.model.num_layers);
    const double all = layers * (first + (num_micro_batches() - 1) * later) +
                       num_micro_batches() * (step_.head.forward + step_.head.backward + step_.embedding.forward +
                                              step_.embedding.backward + ends);
    step_.exposed_shards = all - step_.computed;
  }

  /// Parameters are gathered once a step, and kept from the first forward pass to the last backward pass.
  void time_sharded_pipeline(double gather, double scatter, double ends) {
    step_.bubble = pipeline_duration(layout(), stages_) - step_.computed;
    std::vector<double> counts(step_.layers.begin(), step_.layers.end());
    const double layers = std::ranges::max(sums_by_rank(counts, layout()));
    step_.exposed_shards = layers * std::max(0.0, gather - step_.layer.forward) +
                           layers * std::max(scatter * kLeastExposed, scatter - step_.layer.backward) + ends;
  }

  void time_replicated() {
    if (layout().pipeline > 1) step_.bubble = pipeline_duration(layout(), stages_) - step_.computed;
    if (layout().num_copies() > 1) step_.exposed_copies = exposed_sums(most_parameters());
    const std::int64_t last = rank_of_stage(static_cast<std::int64_t>(step_.layers.size()) - 1, layout());
    if (last == 0 || !setup_.model.tied) return;
    const double bytes = habits().tied_gradient_bytes > 0 ? habits().tied_gradient_bytes : habits().gradient_bytes;
    step_.exposed_tied =
        collectives_.sum(bytes * setup_.embedding_parameters(), {.num_ranks = 2, .ranks_within_node = 1});
  }

  double exposed_sums(double parameters) const {
    const RankGroup copies = setup_.copies_group();
    const double scatter = collectives_.scatter(habits().gradient_bytes * parameters, copies);
    const double gather = collectives_.gather(habits().shard_gather_bytes * parameters, copies);
    if (habits().overlaps_data_parallel && (habits().overlaps_in_pipeline || layout().pipeline == 1)) {
      const double backward = sums_by_rank(stages_.backward, layout()).back();
      const double forward = sums_by_rank(stages_.forward, layout()).back();
      return std::max(scatter * kLeastExposed, scatter - backward * kOverlappedPass) +
             std::max(gather * kLeastExposed, gather - forward * kOverlappedPass) +
             setup_.cluster.network.multiprocessor_share * (std::min(scatter, backward) + std::min(gather, forward));
    }
    double exposed = layout().zero >= 1 && habits().scatters_gradients
                         ? scatter
                         : collectives_.sum(habits().gradient_bytes * parameters, copies);
    if (layout().zero >= 1) exposed += gather;
    return exposed + kernels_.stream(parameters * habits().gradient_bytes * 4);  // copies into buckets and back
  }

  const Setup& setup_;
  Kernels kernels_;
  Collectives collectives_;
  StageCosts stages_;
  StepTime step_;
};

}  // namespace

std::vector<std::int64_t> deal_layers(std::int64_t num_layers, const Layout& layout) {
  const std::int64_t stages = layout.pipeline * layout.stages_per_rank;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), num_layers / stages);
  if (num_layers % stages == 0) return layers;
  if ((num_layers + 2) % stages == 0) {
    layers.assign(layers.size(), (num_layers + 2) / stages);
    --layers.front();
    --layers.back();
    return layers;
  }
  for (std::int64_t i = 0; i < num_layers % stages; ++i) ++layers[static_cast<std::size_t>(i)];
  return layers;
}

std::vector<std::int64_t> deal_layers(const Setup& setup) {
  const std::int64_t layers = setup.model.num_layers;
  const std::int64_t stages = setup.layout.pipeline * setup.layout.stages_per_rank;
  const bool even = layers % stages == 0 || (layers + 2) % stages == 0;
  if (even || !setup.cluster.software.fills_stages || setup.layout.stages_per_rank > 1)
    return deal_layers(layers, setup.layout);
  return fill_stages(layers, stages);
}

std::int64_t rank_of_stage(std::int64_t stage, const Layout& layout) {
  if (layout.schedule == ScheduleKind::zero_bubble_v) return std::min(stage, 2 * layout.pipeline - 1 - stage);
  return stage % layout.pipeline;
}

std::vector<double> sums_by_rank(const std::vector<double>& of_stages, const Layout& layout) {
  std::vector<double> sums(static_cast<std::size_t>(layout.pipeline), 0);
  for (std::size_t stage = 0; stage < of_stages.size(); ++stage)
    sums[static_cast<std::size_t>(rank_of_stage(static_cast<std::int64_t>(stage), layout))] += of_stages[stage];
  return sums;
}

std::vector<double> parameters_of_ranks(const Setup& setup, const std::vector<std::int64_t>& layers) {
  const std::int64_t last = rank_of_stage(static_cast<std::int64_t>(layers.size()) - 1, setup.layout);
  std::vector<double> parameters = sums_by_rank({layers.begin(), layers.end()}, setup.layout);
  for (double& number : parameters) number *= setup.layer_parameters();
  parameters.front() += setup.embedding_parameters();
  if (last != 0 || !setup.model.tied) parameters[static_cast<std::size_t>(last)] += setup.embedding_parameters();
  return parameters;
}

StepTime step_time(const Setup& setup) {
  return StepModel(setup).time();
}

double least_step_time(const Setup& setup) {
  const StepModel model(setup);
  return model.partly().computed * model.partly().straggler + model.partly().optimizer;
}

pipeline::Timeline first_timeline(const Setup& setup, std::int64_t most) {
  const StepModel model(setup);
  const std::int64_t rounds = std::max<std::int64_t>(1, most / setup.layout.pipeline);
  const std::int64_t shown = std::min(setup.layout.num_micro_batches, rounds * setup.layout.pipeline);
  return pipeline::simulate(schedule_of(setup.layout, shown), timeline_costs(model.stages()));
}

}  // namespace trainctl::cluster

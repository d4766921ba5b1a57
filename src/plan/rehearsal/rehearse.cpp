#include "plan/rehearsal/rehearse.h"

#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <utility>

#include "comm/reduce/gradient_reducer.h"
#include "core/error.h"
#include "core/units.h"
#include "plan/rehearsal/recorder.h"
#include "plan/rehearsal/recording_group.h"
#include "train/loop/step.h"
#include "train/run/run.h"

namespace trainctl::plan {
namespace {

/// Starts sums as c10d's Reducer does: a bucket's when all its gradients are ready, and those of the buckets before it
/// have been started.
class ReadyBuckets {
 public:
  ReadyBuckets(train::Run& run, const distributed::GradientSums& sums)
      : group_(run.mesh->gradients()), micro_batches_(run.micro_batches), passes_(run.parameters.size(), 0) {
    for (const optimizer::OptimizedParameter& one : run.parameters) {
      parameters_.push_back(one.tensor);
      gradients_.push_back(at::zeros_like(one.tensor));
    }
    const auto bucket_bytes = static_cast<std::int64_t>(sums.bucket_mib * core::kMiB);
    for (const std::vector<std::size_t>& members :
         comm::reduction_buckets(parameters_, {.bucket_bytes = bucket_bytes})) {
      double bytes = 0;
      for (const std::size_t i : members) {
        bytes += static_cast<double>(parameters_[i].nbytes());
        watch(parameters_[i], i, buckets_.size());
      }
      buckets_.push_back({.bytes = bytes * sums.sent_share, .num_members = members.size()});
    }
  }

  /// Puts zeros in the gradients' places, as the Reducer keeps them: a backward pass adds to them.
  void attach() {
    if (!gradients_.empty()) at::_foreach_zero_(gradients_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
  }

  /// Waits for all sums. Those of parameters that took no part in the loss start now.
  void finish() {
    for (; next_ < buckets_.size(); ++next_) start(buckets_[next_]);
    for (Bucket& bucket : buckets_) {
      bucket.sum->wait();
      bucket.sum.reset();
      bucket.num_ready = 0;
    }
    next_ = 0;
  }

 private:
  struct Bucket {
    double bytes = 0;
    std::size_t num_members = 0;
    std::size_t num_ready = 0;
    std::unique_ptr<comm::Work> sum{};
  };

  void watch(const at::Tensor& parameter, std::size_t number, std::size_t bucket) {
    parameter.register_hook([this, number, bucket](const at::Tensor&) {
      if (++passes_[number] < micro_batches_) return;
      passes_[number] = 0;
      ++buckets_[bucket].num_ready;
      for (; next_ < buckets_.size() && buckets_[next_].num_ready == buckets_[next_].num_members; ++next_)
        start(buckets_[next_]);
    });
  }
  void start(Bucket& bucket) {
    bucket.sum = group_.all_reduce(at::empty({static_cast<std::int64_t>(bucket.bytes)}, at::kByte), comm::Reduce::sum);
  }

  comm::Group& group_;
  std::int64_t micro_batches_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> gradients_;
  std::vector<std::int64_t> passes_;  // of each parameter: backward passes of the step so far
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // bucket to start
};

/// Whether c10d's Reducer sums the gradients, which needs ranks that are there.
bool has_reducer(const distributed::DistributedConfig& config, std::int64_t world) {
  return world > 1 && config.pipeline == 1 && config::traits_of(config.how).layout == distributed::Layout::replicated;
}

replay::RankTrace rehearse_rank(const experiment::Experiment& given, const RehearsalOptions& options,
                                const RehearsedRanks& ranks, std::vector<tracking::Notice>& notices) {
  experiment::Experiment experiment = given;
  const bool sums = has_reducer(given.distributed, options.world);
  if (sums) experiment.distributed.how = distributed::NotDistributedConfig{};
  Recorder recorder(ranks.rank);
  const std::unique_ptr<comm::Group> group = recording_group(ranks, recorder);
  const std::unique_ptr<train::Run> run =
      train::build(experiment, notices, {.group = group.get(), .local_world_size = options.per_node});
  train::Step step(*run);
  std::unique_ptr<ReadyBuckets> buckets;
  if (sums) {
    buckets = std::make_unique<ReadyBuckets>(*run, config::facts_of(given.distributed.how).gradients);
    step.on_gradients = [&] { buckets->finish(); };
  }
  std::vector<replay::RankTrace> steps;
  for (std::int64_t i = 0; i < options.warmup + options.steps; ++i) {
    recorder.begin_step(run->device);
    if (buckets) buckets->attach();
    step(train::GradNorm::only_to_clip);
    replay::RankTrace trace = recorder.end_step();
    if (i >= options.warmup) steps.push_back(std::move(trace));
  }
  return replay::median_of(steps);
}

}  // namespace

std::vector<replay::RankTrace> rehearse(const experiment::Experiment& experiment, const RehearsalOptions& options,
                                        std::vector<tracking::Notice>& notices) {
  const std::int64_t pipeline = experiment.distributed.pipeline;
  if (experiment.distributed.how.get_if<distributed::LocalReplicasConfig>() != nullptr)
    throw core::Error("distributed.kind: " + std::string(experiment.distributed.how.kind()) +
                      " has its replicas in one process")
        .hint("set distributed.kind: ddp");
  SentNumbers sent_numbers;
  std::vector<replay::RankTrace> traces;
  for (std::int64_t place = 0; place < pipeline; ++place)
    traces.push_back(rehearse_rank(experiment, options,
                                   {.world = options.world,
                                    .rank = options.world / pipeline * place,
                                    .per_node = options.per_node,
                                    .sent_numbers = &sent_numbers},
                                   notices));
  return traces;
}

}  // namespace trainctl::plan

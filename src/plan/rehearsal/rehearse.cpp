#include "plan/rehearsal/rehearse.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "comm/reduce/gradient_reducer.h"
#include "core/error.h"
#include "core/units.h"
#include "plan/rehearsal/recorder.h"
#include "plan/sent_numbers.h"
#include "train/loop/step.h"
#include "train/run/run.h"

namespace trainctl::plan {
namespace {

/// The ranks of a rehearsal.
struct RehearsedRanks {
  std::int64_t world = 1;
  std::int64_t rank = 0;  // that is there
  std::int64_t per_node = 1;
  SentNumbers* sent_numbers = nullptr;  // outlives the group
};

using replay::Collective;

class RecordedWork final : public comm::Work {
 public:
  RecordedWork(Recorder& recorder, Recorder::Number number, std::function<void()> finish)
      : recorder_(recorder), number_(number), finish_(std::move(finish)) {}
  ~RecordedWork() override { wait(); }
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;
  void wait() override {
    if (std::exchange(is_awaited_, true)) return;
    recorder_.wait(number_);
    if (finish_) finish_();
  }

 private:
  Recorder& recorder_;
  Recorder::Number number_;
  std::function<void()> finish_;
  bool is_awaited_ = false;
};

/// On a CPU it does what c10d's Gloo backend does. A gathering goes through a temporary. A reduce_scatter sums a copy
/// of the whole, and takes a part.
class RecordingGroup final : public comm::Group {
 public:
  RecordingGroup(std::string axes, std::vector<std::int64_t> members, const RehearsedRanks& ranks, Recorder& recorder)
      : axes_(std::move(axes)), members_(std::move(members)), ranks_(ranks), recorder_(recorder) {
    for (const std::int64_t member : members_) nodes_.push_back(member / ranks.per_node);
  }

  std::int64_t rank() const override {
    return std::find(members_.begin(), members_.end(), ranks_.rank) - members_.begin();
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }

  std::unique_ptr<comm::Work> all_reduce(at::Tensor tensor, comm::Reduce) override {
    return record(Collective::all_reduce, tensor);
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor mine) override {
    const at::Tensor rows = mine.detach().view({1, -1});
    if (!all.is_cpu()) {
      recorder_.aside([&] { fill(all, rows); });
      return record(Collective::all_gather, all);
    }
    at::Tensor copy = at::empty(all.sizes(), all.options().requires_grad(false));
    fill(copy, rows);
    return record(Collective::all_gather, all, [all, copy] { all.detach().copy_(copy); });
  }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor mine, at::Tensor all) override {
    const at::Tensor to = mine.detach().view({-1});
    if (!all.is_cpu()) {
      recorder_.aside([&] { to.copy_(all.detach().view({size(), -1})[rank()]); });
      return record(Collective::reduce_scatter, all);
    }
    const at::Tensor copy = all.detach().clone();
    return record(Collective::all_reduce, all, [this, to, copy] { to.copy_(copy.view({size(), -1})[rank()]); });
  }
  std::unique_ptr<comm::Work> broadcast(at::Tensor tensor, std::int64_t) override {
    return record(Collective::broadcast, tensor);
  }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor all, at::Tensor mine) override {
    recorder_.aside([&] { fill(all, mine.detach().view({size(), -1})); });
    return record(Collective::all_to_all, all);
  }
  std::unique_ptr<comm::Work> isend(at::Tensor tensor, std::int64_t to) override {
    ranks_.sent_numbers->keep(tensor);
    return record_among({ranks_.rank, members_[static_cast<std::size_t>(to)]}, Collective::send, tensor);
  }
  std::unique_ptr<comm::Work> irecv(at::Tensor tensor, std::int64_t from) override {
    const at::NoGradGuard no_grad;
    if (!ranks_.sent_numbers->give(tensor))
      recorder_.aside([&] { tensor.is_floating_point() ? tensor.detach().uniform_(-1, 1) : tensor.detach().zero_(); });
    return record_among({members_[static_cast<std::size_t>(from)], ranks_.rank}, Collective::receive, tensor);
  }
  void barrier() override { record(Collective::barrier, at::Tensor())->wait(); }

  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> split(const std::string& name, const std::vector<std::int64_t>& members) override {
    std::vector<std::int64_t> ranks;
    for (const std::int64_t member : members) ranks.push_back(members_[static_cast<std::size_t>(member)]);
    return std::make_unique<RecordingGroup>(name, std::move(ranks), ranks_, recorder_);
  }

 private:
  void fill(const at::Tensor& all, const at::Tensor& rows) const {
    const at::NoGradGuard no_grad;
    all.detach().view({size(), -1}).copy_(rows.expand({size(), -1}));
  }

  std::unique_ptr<comm::Work> record(Collective kind, const at::Tensor& tensor, std::function<void()> finish = {}) {
    return record_among(members_, kind, tensor, std::move(finish));
  }
  std::unique_ptr<comm::Work> record_among(std::vector<std::int64_t> members, Collective kind, const at::Tensor& tensor,
                                           std::function<void()> finish = {}) {
    const double bytes = tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0;
    return std::make_unique<RecordedWork>(
        recorder_, recorder_.start({.kind = kind, .axes = axes_, .bytes = bytes, .members = std::move(members)}),
        std::move(finish));
  }

  std::string axes_;
  std::vector<std::int64_t> members_;
  std::vector<std::int64_t> nodes_;
  RehearsedRanks ranks_;
  Recorder& recorder_;
};

/// Returns a group of which one rank is there. Its collectives give what they would if all ranks had this one's values;
/// sums stay as they are. What other ranks send is zeros. `recorder` outlives the group.
std::unique_ptr<comm::Group> recording_group(const RehearsedRanks& ranks, Recorder& recorder) {
  std::vector<std::int64_t> members(static_cast<std::size_t>(ranks.world));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<RecordingGroup>("world", std::move(members), ranks, recorder);
}

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

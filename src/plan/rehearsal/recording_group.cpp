#include "plan/rehearsal/recording_group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace trainctl::plan {
namespace {

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

}  // namespace

std::unique_ptr<comm::Group> recording_group(const RehearsedRanks& ranks, Recorder& recorder) {
  std::vector<std::int64_t> members(static_cast<std::size_t>(ranks.world));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<RecordingGroup>("world", std::move(members), ranks, recorder);
}

}  // namespace trainctl::plan

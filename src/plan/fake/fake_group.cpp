#include "plan/fake/fake_group.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "plan/memory/memory_tracker.h"
#include "runtime/fake_tensor.h"

namespace trainctl::plan {
namespace {

/// A collective under way, which releases its tensor in `wait`.
class Moving final : public comm::Work {
 public:
  explicit Moving(at::Tensor held) : held_(std::move(held)) {}
  void wait() override { held_.reset(); }

 private:
  at::Tensor held_;
};

class FakeGroup final : public comm::Group {
 public:
  FakeGroup(std::vector<std::int64_t> nodes, const ImaginedRanks& ranks, MemoryTracker& log)
      : nodes_(std::move(nodes)), ranks_(ranks), log_(log) {}

  std::int64_t rank() const override { return ranks_.rank; }
  std::int64_t size() const override { return static_cast<std::int64_t>(nodes_.size()); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor tensor, comm::Reduce) override {
    const auto members = static_cast<double>(size());
    count(2 * (members - 1) / members * static_cast<double>(tensor.nbytes()));  // in a ring
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor) override { return moving(all); }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor, at::Tensor all) override { return moving(all); }
  std::unique_ptr<comm::Work> broadcast(at::Tensor, std::int64_t) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor, at::Tensor mine) override { return moving(mine); }
  std::unique_ptr<comm::Work> isend(at::Tensor tensor, std::int64_t) override {
    count(static_cast<double>(tensor.nbytes()));
    if (ranks_.sent_numbers != nullptr) ranks_.sent_numbers->keep(tensor);
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> irecv(at::Tensor tensor, std::int64_t) override {
    if (ranks_.sent_numbers != nullptr) ranks_.sent_numbers->give(tensor);
    return std::make_unique<Moving>(at::Tensor());
  }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> split(const std::string&, const std::vector<std::int64_t>& members) override {
    std::vector<std::int64_t> nodes;
    for (const std::int64_t member : members) nodes.push_back(nodes_[static_cast<std::size_t>(member)]);
    ImaginedRanks ranks = ranks_;
    ranks.rank = std::find(members.begin(), members.end(), ranks_.rank) - members.begin();
    return std::make_unique<FakeGroup>(std::move(nodes), ranks, log_);
  }

 private:
  void count(double bytes) const {
    if (ranks_.sent_bytes != nullptr) *ranks_.sent_bytes += bytes;
  }
  std::unique_ptr<comm::Work> moving(const at::Tensor& all) {
    if (!ranks_.copies) return std::make_unique<Moving>(at::Tensor());
    const at::Tensor copy = at::empty(all.sizes(), all.options().requires_grad(false));
    log_.assign(copy, Purpose::communication);
    return std::make_unique<Moving>(copy);
  }

  std::vector<std::int64_t> nodes_;
  ImaginedRanks ranks_;
  MemoryTracker& log_;
};

}  // namespace

std::unique_ptr<comm::Group> fake_group(const ImaginedRanks& ranks, MemoryTracker& log) {
  std::vector<std::int64_t> nodes;
  for (std::int64_t rank = 0; rank < ranks.world; ++rank) nodes.push_back(rank / ranks.per_node);
  return std::make_unique<FakeGroup>(std::move(nodes), ranks, log);
}

}  // namespace trainctl::plan

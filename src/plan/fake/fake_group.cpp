#include "plan/fake/fake_group.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "plan/memory/memory_tracker.h"

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
  FakeGroup(const ImaginedRanks& ranks, MemoryTracker& log) : ranks_(ranks), log_(log) {
    for (std::int64_t rank = 0; rank < ranks.world; ++rank) nodes_.push_back(rank / ranks.per_node);
  }

  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return ranks_.world; }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor, comm::Reduce) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor) override { return moving(all); }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor, at::Tensor all) override { return moving(all); }
  std::unique_ptr<comm::Work> broadcast(at::Tensor, std::int64_t) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> part(const std::vector<std::int64_t>& members) override {
    ImaginedRanks part = ranks_;
    part.world = static_cast<std::int64_t>(members.size());
    return std::make_unique<FakeGroup>(part, log_);
  }

 private:
  std::unique_ptr<comm::Work> moving(const at::Tensor& all) {
    if (!ranks_.copies) return std::make_unique<Moving>(at::Tensor());
    const at::Tensor copy = at::empty(all.sizes(), all.options().requires_grad(false));
    log_.assign(copy, Purpose::communication);
    return std::make_unique<Moving>(copy);
  }

  ImaginedRanks ranks_;
  MemoryTracker& log_;
  std::vector<std::int64_t> nodes_;
};

}  // namespace

std::unique_ptr<comm::Group> fake_group(const ImaginedRanks& ranks, MemoryTracker& log) {
  return std::make_unique<FakeGroup>(ranks, log);
}

}  // namespace trainctl::plan

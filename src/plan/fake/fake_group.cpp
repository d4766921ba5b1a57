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
  FakeGroup(std::vector<std::int64_t> nodes, bool copies, MemoryTracker& log)
      : nodes_(std::move(nodes)), copies_(copies), log_(log) {}

  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return static_cast<std::int64_t>(nodes_.size()); }
  std::unique_ptr<comm::Work> all_reduce(at::Tensor, comm::Reduce) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor) override { return moving(all); }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor, at::Tensor all) override { return moving(all); }
  std::unique_ptr<comm::Work> broadcast(at::Tensor, std::int64_t) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor, at::Tensor mine) override { return moving(mine); }
  std::unique_ptr<comm::Work> isend(at::Tensor, std::int64_t) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  std::unique_ptr<comm::Work> irecv(at::Tensor, std::int64_t) override {
    return std::make_unique<Moving>(at::Tensor());
  }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<comm::Group> split(const std::string&, const std::vector<std::int64_t>& members) override {
    std::vector<std::int64_t> nodes;
    for (const std::int64_t member : members) nodes.push_back(nodes_[static_cast<std::size_t>(member)]);
    return std::make_unique<FakeGroup>(std::move(nodes), copies_, log_);
  }

 private:
  std::unique_ptr<comm::Work> moving(const at::Tensor& all) {
    if (!copies_) return std::make_unique<Moving>(at::Tensor());
    const at::Tensor copy = at::empty(all.sizes(), all.options().requires_grad(false));
    log_.assign(copy, Purpose::communication);
    return std::make_unique<Moving>(copy);
  }

  std::vector<std::int64_t> nodes_;
  bool copies_;
  MemoryTracker& log_;
};

}  // namespace

std::unique_ptr<comm::Group> fake_group(const ImaginedRanks& ranks, MemoryTracker& log) {
  std::vector<std::int64_t> nodes;
  for (std::int64_t rank = 0; rank < ranks.world; ++rank) nodes.push_back(rank / ranks.per_node);
  return std::make_unique<FakeGroup>(std::move(nodes), ranks.copies, log);
}

}  // namespace trainctl::plan

#include "comm/group.h"

#include "core/error.h"

namespace trainctl::comm {
namespace {

class Done final : public Work {
 public:
  void wait() override {}
};

class SelfGroup final : public Group {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return 1; }
  std::unique_ptr<Work> all_reduce(at::Tensor, Reduce) override { return std::make_unique<Done>(); }
  std::unique_ptr<Work> all_gather(at::Tensor all, at::Tensor mine) override { return copy(all, mine); }
  std::unique_ptr<Work> reduce_scatter(at::Tensor mine, at::Tensor all) override { return copy(mine, all); }
  std::unique_ptr<Work> broadcast(at::Tensor, std::int64_t root) override {
    core::ensure(root == 0, "the group has one member");
    return std::make_unique<Done>();
  }
  std::unique_ptr<Work> all_to_all(at::Tensor all, at::Tensor mine) override { return copy(all, mine); }
  std::unique_ptr<Work> isend(at::Tensor, std::int64_t) override { return refuse(); }
  std::unique_ptr<Work> irecv(at::Tensor, std::int64_t) override { return refuse(); }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<Group> split(const std::string&, const std::vector<std::int64_t>& members) override {
    core::ensure(members == nodes_, "a group of one has one part");
    return alone();
  }

 private:
  static std::unique_ptr<Work> refuse() {
    core::ensure(false, "the group has one member, and a tensor goes from one to another");
    return nullptr;
  }
  static std::unique_ptr<Work> copy(const at::Tensor& to, const at::Tensor& from) {
    core::ensure(to.numel() == from.numel(), "a group of one moves as much as it is given");
    // Callers may gather in place.
    if (to.data_ptr() != from.data_ptr()) to.view({-1}).copy_(from.view({-1}));
    return std::make_unique<Done>();
  }

  std::vector<std::int64_t> nodes_{0};
};

}  // namespace

std::unique_ptr<Group> alone() {
  return std::make_unique<SelfGroup>();
}

}  // namespace trainctl::comm

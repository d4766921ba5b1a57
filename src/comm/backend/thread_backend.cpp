#include "comm/backend/thread_backend.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/backend/c10d_group.h"
#include "comm/backend/future_work.h"
#include "comm/backend/thread_rendezvous.h"
#include "comm/world.h"
#include "core/error.h"

namespace trainctl::comm {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors parts_of(const at::Tensor& tensor, int num_parts) {
  const at::Tensor flat = tensor.view({-1});
  TORCH_CHECK(flat.numel() % num_parts == 0, "a tensor of ", flat.numel(), " can't be dealt to ", num_parts,
              " members");
  const std::int64_t length = flat.numel() / num_parts;
  Tensors parts;
  for (int i = 0; i < num_parts; ++i) parts.push_back(flat.narrow(0, i * length, length));
  return parts;
}

class ThreadBackend final : public c10d::Backend {
 public:
  ThreadBackend(int member, int num_members, std::shared_ptr<ThreadRendezvous> rendezvous)
      : Backend(member, num_members), rendezvous_(std::move(rendezvous)) {}
  ThreadBackend(const ThreadBackend&) = delete;
  ThreadBackend& operator=(const ThreadBackend&) = delete;
  ~ThreadBackend() override { rendezvous_->leave(getRank()); }

  const std::string getBackendName() const override { return "threads"; }
  void setTimeout(std::chrono::milliseconds timeout) override { rendezvous_->set_timeout(timeout); }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return enter({.kind = ThreadCall::Kind::all_reduce, .reduce = options.reduceOp, .inputs = tensors});
  }
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override {
    return allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return enter(
        {.kind = ThreadCall::Kind::reduce, .reduce = options.reduceOp, .root = options.rootRank, .inputs = tensors});
  }
  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return enter({.kind = ThreadCall::Kind::broadcast, .root = options.rootRank, .inputs = tensors});
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions&) override {
    TORCH_CHECK(inputs.size() == 1 && outputs.size() == 1, "a member gathers one tensor at a time");
    return enter({.kind = ThreadCall::Kind::all_gather, .inputs = inputs, .outputs = outputs.front()});
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    return enter({.kind = ThreadCall::Kind::all_gather, .inputs = {input}, .outputs = parts_of(output, getSize())});
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& options) override {
    TORCH_CHECK(inputs.size() == 1 && outputs.size() == 1, "a member scatters one tensor at a time");
    return enter({.kind = ThreadCall::Kind::reduce_scatter,
                  .reduce = options.reduceOp,
                  .inputs = inputs.front(),
                  .outputs = outputs});
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override {
    return enter({.kind = ThreadCall::Kind::reduce_scatter,
                  .reduce = options.reduceOp,
                  .inputs = parts_of(input, getSize()),
                  .outputs = {output}});
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override { return enter({}); }

 private:
  c10::intrusive_ptr<c10d::Work> enter(ThreadCall call) {
    return c10::make_intrusive<FutureWork>(rendezvous_->enter(getRank(), std::move(call)));
  }

  std::shared_ptr<ThreadRendezvous> rendezvous_;
};

std::unique_ptr<Group> make_thread_group(C10dGroupParts parts) {
  parts.rank = parts.cpu->getRank();
  parts.size = parts.cpu->getSize();
  parts.cpu_type = c10d::ProcessGroup::BackendType::CUSTOM;
  parts.nodes.assign(static_cast<std::size_t>(parts.size), 0);
  return make_c10d_group(parts);
}

/// Registry in which the members of a group find their subgroups.
class ThreadParts {
 public:
  explicit ThreadParts(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// Returns the member's group in its `number`th subgroup.
  std::unique_ptr<Group> take(std::int64_t member, std::int64_t number, const std::vector<std::int64_t>& members) {
    const auto place = std::find(members.begin(), members.end(), member);
    core::ensure(place != members.end(), "a part has the member that calls for it");
    const std::lock_guard lock(mutex_);
    const auto [found, is_first] = backends_.try_emplace({number, members});
    if (is_first) found->second = make_thread_backends(static_cast<int>(members.size()), timeout_);
    c10::intrusive_ptr<c10d::Backend>& mine = found->second[static_cast<std::size_t>(place - members.begin())];
    return make_thread_group({.name = "some members", .cpu = std::exchange(mine, nullptr)});
  }

 private:
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, std::vector<c10::intrusive_ptr<c10d::Backend>>>
      backends_;
};

}  // namespace

std::vector<c10::intrusive_ptr<c10d::Backend>> make_thread_backends(int num_members,
                                                                    std::chrono::milliseconds timeout) {
  const auto rendezvous = std::make_shared<ThreadRendezvous>(num_members, timeout);
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends;
  for (int member = 0; member < num_members; ++member)
    backends.push_back(c10::make_intrusive<ThreadBackend>(member, num_members, rendezvous));
  // The thread ends when the last member has left. It is detached because a failed collective's callback, which runs on
  // it, may drop the last member.
  std::thread([rendezvous] { rendezvous->watch(); }).detach();
  return backends;
}

std::vector<std::unique_ptr<Group>> thread_groups(std::int64_t num_members, std::chrono::milliseconds timeout) {
  core::ensure(num_members > 0, "a group has members");
  const auto parts = std::make_shared<ThreadParts>(timeout);
  std::vector<std::unique_ptr<Group>> groups;
  for (const c10::intrusive_ptr<c10d::Backend>& backend : make_thread_backends(static_cast<int>(num_members), timeout))
    groups.push_back(
        make_thread_group({.name = "all members",
                           .cpu = backend,
                           .make_part = [parts, member = backend->getRank()](std::int64_t number,
                                                                             const std::vector<std::int64_t>& members) {
                             return parts->take(member, number, members);
                           }}));
  return groups;
}

}  // namespace trainctl::comm

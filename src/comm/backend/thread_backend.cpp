// A c10d backend whose members are threads of this process: the member that comes last to a collective computes it for
// all. Sums run in the order of the members, so they are the same on every run; 16-bit numbers are summed in fp32.
#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

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
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<std::int64_t>& to_sizes,
                                               std::vector<std::int64_t>& from_sizes,
                                               const c10d::AllToAllOptions&) override {
    TORCH_CHECK(to_sizes.empty() && from_sizes.empty(), "members exchange parts of the same size");
    return enter({.kind = ThreadCall::Kind::all_to_all,
                  .inputs = parts_of(input, getSize()),
                  .outputs = parts_of(output, getSize())});
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override { return enter({}); }
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int to, int) override {
    return enter({.kind = ThreadCall::Kind::transfer, .inputs = tensors}, {.sender = getRank(), .receiver = to});
  }
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int from, int) override {
    return enter({.kind = ThreadCall::Kind::transfer, .inputs = tensors}, {.sender = from, .receiver = getRank()});
  }

 private:
  c10::intrusive_ptr<c10d::Work> enter(ThreadCall call, ThreadChannel channel = {}) {
    return c10::make_intrusive<FutureWork>(rendezvous_->enter(getRank(), std::move(call), channel));
  }

  std::shared_ptr<ThreadRendezvous> rendezvous_;
};

/// Makes one backend for each member, in their order. A member whose backend is destroyed has left: what the others
/// wait for fails.
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

/// Where threads that make a group find each other. A group is known by its name, which tells its members.
class ThreadGroups : public std::enable_shared_from_this<ThreadGroups> {
 public:
  explicit ThreadGroups(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// `self`: this member's rank among all.
  std::unique_ptr<Group> make(std::int64_t self, const std::string& name, const std::vector<std::int64_t>& members) {
    const auto place = std::find(members.begin(), members.end(), self);
    core::ensure(place != members.end(), "a group has the member that calls for it");
    return make_c10d_group({.name = name,
                            .rank = static_cast<int>(place - members.begin()),
                            .size = static_cast<int>(members.size()),
                            .cpu = take(name, members.size(), static_cast<std::size_t>(place - members.begin())),
                            .cpu_type = c10d::ProcessGroup::BackendType::CUSTOM,
                            .nodes = std::vector<std::int64_t>(members.size()),
                            .members = members,
                            .make_group = [groups = shared_from_this(), self](const std::string& other,
                                                                              const std::vector<std::int64_t>& some) {
                              return groups->make(self, other, some);
                            }});
  }

 private:
  /// Each member takes its own place in the groups of a name, one after the other.
  c10::intrusive_ptr<c10d::Backend> take(const std::string& name, std::size_t size, std::size_t place) {
    const std::lock_guard lock(mutex_);
    std::vector<std::deque<c10::intrusive_ptr<c10d::Backend>>>& waiting = waiting_[name];
    waiting.resize(size);
    if (waiting[place].empty()) {
      const auto backends = make_thread_backends(static_cast<int>(size), timeout_);
      for (std::size_t i = 0; i < size; ++i) waiting[i].push_back(backends[i]);
    }
    c10::intrusive_ptr<c10d::Backend> mine = std::move(waiting[place].front());
    waiting[place].pop_front();
    return mine;
  }

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::deque<c10::intrusive_ptr<c10d::Backend>>>> waiting_;  // by name and place
};

}  // namespace

std::vector<std::unique_ptr<Group>> thread_groups(std::int64_t num_members, std::chrono::milliseconds timeout) {
  core::ensure(num_members > 0, "a group has members");
  const auto threads = std::make_shared<ThreadGroups>(timeout);
  std::vector<std::int64_t> members(static_cast<std::size_t>(num_members));
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::unique_ptr<Group>> groups;
  for (const std::int64_t member : members) groups.push_back(threads->make(member, "all members", members));
  return groups;
}

}  // namespace trainctl::comm

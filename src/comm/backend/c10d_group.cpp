#include "comm/backend/c10d_group.h"

#include "comm/backend/traced_backend.h"
#include "core/error.h"
#include "core/text.h"
#include "runtime/span.h"

namespace trainctl::comm {
namespace {

std::string describe_operation(const char* operation, const at::Tensor& tensor) {
  return std::string(operation) + " of " + core::format_bytes(static_cast<double>(tensor.nbytes()));
}

/// After an abort NCCL reports success while the buffers hold partial sums.
void refuse_aborted(const std::shared_ptr<FlightRecorder>& journal) {
  if (journal && journal->is_aborted()) throw core::Error("this rank's collectives were ended");
}

class PendingWork final : public Work {
 public:
  PendingWork(c10::intrusive_ptr<c10d::Work> work, std::string what, std::shared_ptr<FlightRecorder> journal)
      : work_(std::move(work)), what_(std::move(what)), journal_(std::move(journal)) {}
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;
  ~PendingWork() override {
    try {
      wait();
    } catch (const std::exception&) {  // a caller that needs the result has called wait()
    }
  }

  bool is_done() override { return !work_ || work_->isCompleted(); }
  void wait() override {
    if (!work_) return;
    const c10::intrusive_ptr<c10d::Work> work = std::move(work_);
    const auto begin = std::chrono::steady_clock::now();
    try {
      const runtime::Span span("communication");
      work->wait();
      refuse_aborted(journal_);
      if (journal_) journal_->waited(std::chrono::steady_clock::now() - begin);
    } catch (const std::exception& error) {
      throw core::Error(what_ + " failed: " + core::as_error(error).what());
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::string what_;
  std::shared_ptr<FlightRecorder> journal_;
};

c10d::ReduceOp reduce_op(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum:
      return c10d::ReduceOp::SUM;
    case Reduce::max:
      return c10d::ReduceOp::MAX;
    case Reduce::min:
      return c10d::ReduceOp::MIN;
  }
  throw std::logic_error("unknown reduction");
}

/// Returns a flat view of the bytes. Copies need no arithmetic, and some backends lack some types.
at::Tensor as_bytes(const at::Tensor& tensor) {
  return tensor.detach().view({-1}).view(at::kByte);
}

class C10dGroup final : public Group {
 public:
  explicit C10dGroup(const C10dGroupParts& parts) : parts_(parts) {
    parts_.cpu = recorded(parts.cpu, parts.name, parts.journal);
    if (parts.cuda) parts_.cuda = recorded(parts.cuda, parts.name, parts.journal);
    process_group_ = c10::make_intrusive<c10d::ProcessGroup>(parts.store, parts.rank, parts.size);
    process_group_->setDefaultBackend(parts.cuda ? c10d::ProcessGroup::BackendType::NCCL : parts.cpu_type);
    process_group_->setBackend(c10::kCPU, parts.cpu_type, parts_.cpu);
    if (parts.cuda) process_group_->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::NCCL, parts_.cuda);
    // Threads of one process add up tensors of any device.
    if (is_of_threads()) process_group_->setBackend(c10::kCUDA, parts_.cpu_type, parts_.cpu);
    process_group_->setGroupName(parts.name);
  }

  std::int64_t rank() const override { return parts_.rank; }
  std::int64_t size() const override { return parts_.size; }
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return process_group_; }
  const std::shared_ptr<FlightRecorder>& journal() const { return parts_.journal; }

  std::unique_ptr<Work> all_reduce(at::Tensor tensor, Reduce reduce) override {
    std::vector<at::Tensor> tensors{tensor.detach()};
    c10d::AllreduceOptions options;
    options.reduceOp = reduce_op(reduce);
    return start("all_reduce", tensor, [&](c10d::Backend& backend) { return backend.allreduce(tensors, options); });
  }

  std::unique_ptr<Work> all_gather(at::Tensor all, at::Tensor mine) override {
    core::ensure(all.numel() == mine.numel() * size(), "all_gather: the result has room for every member's part");
    at::Tensor to = as_bytes(all);
    at::Tensor from = as_bytes(mine);
    return start("all_gather", all, [&](c10d::Backend& backend) { return backend._allgather_base(to, from); });
  }

  std::unique_ptr<Work> reduce_scatter(at::Tensor mine, at::Tensor all) override {
    core::ensure(all.numel() == mine.numel() * size(), "reduce_scatter: every member has a part for every other");
    at::Tensor to = mine.detach().view({-1});
    at::Tensor from = all.detach().view({-1});
    return start("reduce_scatter", all, [&](c10d::Backend& backend) { return backend._reduce_scatter_base(to, from); });
  }

  std::unique_ptr<Work> broadcast(at::Tensor tensor, std::int64_t root) override {
    std::vector<at::Tensor> tensors{as_bytes(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return start("broadcast", tensor, [&](c10d::Backend& backend) { return backend.broadcast(tensors, options); });
  }

  std::unique_ptr<Work> all_to_all(at::Tensor all, at::Tensor mine) override {
    core::ensure(all.numel() == mine.numel() && all.numel() % size() == 0,
                 "all_to_all: every member has a part for every other");
    at::Tensor to = as_bytes(all);
    at::Tensor from = as_bytes(mine);
    std::vector<std::int64_t> equal;  // none: parts of the same size
    return start("all_to_all", mine, [&](c10d::Backend& backend) {
      return backend.alltoall_base(to, from, equal, equal, c10d::AllToAllOptions());
    });
  }

  std::unique_ptr<Work> isend(at::Tensor tensor, std::int64_t to) override {
    std::vector<at::Tensor> tensors{as_bytes(tensor)};
    return start("send", tensor,
                 [&](c10d::Backend& backend) { return backend.send(tensors, static_cast<int>(to), /*tag=*/0); });
  }

  std::unique_ptr<Work> irecv(at::Tensor tensor, std::int64_t from) override {
    std::vector<at::Tensor> tensors{as_bytes(tensor)};
    return start("receive", tensor,
                 [&](c10d::Backend& backend) { return backend.recv(tensors, static_cast<int>(from), /*tag=*/0); });
  }

  void barrier() override { PendingWork(parts_.cpu->barrier(), "barrier", parts_.journal).wait(); }

  const std::vector<std::int64_t>& nodes() const override { return parts_.nodes; }
  CommunicationTime take_communication_time() override {
    return parts_.journal ? parts_.journal->take_time() : CommunicationTime{};
  }

  std::unique_ptr<Group> split(const std::string& name, const std::vector<std::int64_t>& members) override {
    if (members.size() == 1) return alone();
    std::vector<std::int64_t> among_all;
    std::string full_name = name + " ranks";
    for (const std::int64_t member : members) {
      among_all.push_back(parts_.members[static_cast<std::size_t>(member)]);
      full_name += " " + std::to_string(among_all.back());
    }
    return parts_.make_group(full_name, among_all);
  }

 private:
  bool is_of_threads() const { return parts_.cpu_type == c10d::ProcessGroup::BackendType::CUSTOM; }

  template <class Operation>
  std::unique_ptr<Work> start(const char* name, const at::Tensor& tensor, Operation operation) {
    if (tensor.numel() == 0) return std::make_unique<PendingWork>(nullptr, "", nullptr);
    std::string what = describe_operation(name, tensor);
    const bool takes_cpu = tensor.is_cpu() || is_of_threads();
    if (!takes_cpu && !parts_.cuda)
      throw core::Error(what + " failed: no backend moves tensors of " + tensor.device().str());
    c10d::Backend& backend = takes_cpu ? *parts_.cpu : *parts_.cuda;
    c10::intrusive_ptr<c10d::Work> work;
    try {
      refuse_aborted(parts_.journal);
      work = operation(backend);
    } catch (const std::exception& error) {
      throw core::Error(what + " failed: " + core::as_error(error).what());
    }
    return std::make_unique<PendingWork>(std::move(work), std::move(what), parts_.journal);
  }

  C10dGroupParts parts_;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
};

}  // namespace

std::unique_ptr<Group> make_c10d_group(const C10dGroupParts& parts) {
  return std::make_unique<C10dGroup>(parts);
}

c10::intrusive_ptr<c10d::ProcessGroup> process_group(Group& group) {
  const auto* over_c10d = dynamic_cast<C10dGroup*>(&group);
  return over_c10d == nullptr ? nullptr : over_c10d->process_group();
}

std::shared_ptr<FlightRecorder> journal_of(Group& group) {
  const auto* over_c10d = dynamic_cast<C10dGroup*>(&group);
  return over_c10d == nullptr ? nullptr : over_c10d->journal();
}

}  // namespace trainctl::comm

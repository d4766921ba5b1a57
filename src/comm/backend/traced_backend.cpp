#include "comm/backend/traced_backend.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <stdexcept>

#include "comm/backend/c10d_group.h"
#include "comm/backend/future_work.h"
#include "core/error.h"

namespace trainctl::comm {
namespace {

using Tensors = std::vector<at::Tensor>;

std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::int64_t bytes_of(const std::vector<Tensors>& lists) {
  std::int64_t bytes = 0;
  for (const Tensors& list : lists) bytes += bytes_of(list);
  return bytes;
}

std::int64_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

void note_end(c10::ivalue::Future& ended, FlightRecorder& journal, std::uint64_t ticket) {
  if (!ended.hasError()) return journal.done(ticket);
  try {
    std::rethrow_exception(ended.exception_ptr());
  } catch (const std::exception& error) {
    journal.failed(ticket, core::as_error(error).what());
  }
}

/// Notes the end of NCCL's work. Its future has no error: the value says how the work ended.
void note_nccl_end(c10::ivalue::Future& ended, FlightRecorder& journal, std::uint64_t ticket) {
  if (ended.hasError()) return note_end(ended, journal, ticket);
  const auto result = static_cast<c10d::WorkResult>(ended.value().toInt());
  if (result == c10d::WorkResult::SUCCESS) return journal.done(ticket);
  journal.failed(ticket,
                 result == c10d::WorkResult::TIMEOUT ? "timed out in NCCL" : "NCCL's connection to a peer failed");
}

/// Work without a future, such as Gloo's reduce_scatter; wait() records its end.
class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<FlightRecorder> journal, std::uint64_t ticket)
      : inner_(std::move(inner)), journal_(std::move(journal)), ticket_(ticket) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override {
    try {
      const bool done = inner_->wait(timeout);
      journal_->done(ticket_);
      return done;
    } catch (const std::exception& error) {
      journal_->failed(ticket_, core::as_error(error).what());
      throw;
    }
  }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  std::shared_ptr<FlightRecorder> journal_;
  std::uint64_t ticket_;
};

/// Returns work that ends with `inner`, or earlier if the flight recorder fails it. If a peer dies just after it
/// announced that it was ready, Gloo's send to it blocks until the timeout.
c10::intrusive_ptr<c10d::Work> until_given_up(c10::ivalue::Future& inner,
                                              const std::shared_ptr<FlightRecorder>& journal, std::uint64_t ticket) {
  auto outer = c10::make_intrusive<c10::ivalue::Future>(inner.elementType());
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  journal->when_overdue(ticket, [outer, has_ended](const std::string& reason) {
    if (!has_ended->exchange(true)) outer->setError(std::make_exception_ptr(std::runtime_error(reason)));
  });
  inner.addCallback([outer, has_ended, journal, ticket](c10::ivalue::Future& ended) {
    note_end(ended, *journal, ticket);
    if (has_ended->exchange(true)) return;
    if (ended.hasError())
      outer->setError(ended.exception_ptr());
    else
      outer->markCompleted(ended.value());
  });
  return c10::make_intrusive<FutureWork>(std::move(outer));
}

c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work, bool is_nccl) {
  try {
    // NCCL's getFuture() completes when the work is queued on its stream, getFutureResult() when it is done.
    return is_nccl ? work.getFutureResult() : work.getFuture();
  } catch (const c10::Error&) {  // this work has no future
    return nullptr;
  }
}

class RecordedBackend final : public c10d::Backend {
 public:
  RecordedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string group, std::shared_ptr<FlightRecorder> journal)
      : Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        group_(std::move(group)),
        journal_(std::move(journal)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  void startCoalescing() override { inner_->startCoalescing(); }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override { return inner_->endCoalescing(); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  std::uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return record("broadcast", bytes_of(tensors), [&] { return inner_->broadcast(tensors, options); });
  }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return record("all_reduce", bytes_of(tensors), [&] { return inner_->allreduce(tensors, options); });
  }
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(Tensors& tensors,
                                                     const c10d::AllreduceCoalescedOptions& options) override {
    return record("all_reduce", bytes_of(tensors), [&] { return inner_->allreduce_coalesced(tensors, options); });
  }
  c10::intrusive_ptr<c10d::Work> reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return record("reduce", bytes_of(tensors), [&] { return inner_->reduce(tensors, options); });
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override {
    return record("all_gather", bytes_of(outputs), [&] { return inner_->allgather(outputs, inputs, options); });
  }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    return record("all_gather", bytes_of(output), [&] { return inner_->_allgather_base(output, input, options); });
  }
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::AllgatherOptions& options) override {
    return record("all_gather", bytes_of(outputs),
                  [&] { return inner_->allgather_into_tensor_coalesced(outputs, inputs, options); });
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ReduceScatterOptions& options) override {
    return record("reduce_scatter", bytes_of(inputs), [&] { return inner_->reduce_scatter(outputs, inputs, options); });
  }
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override {
    return record("reduce_scatter", bytes_of(input),
                  [&] { return inner_->_reduce_scatter_base(output, input, options); });
  }
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::ReduceScatterOptions& options) override {
    return record("reduce_scatter", bytes_of(inputs),
                  [&] { return inner_->reduce_scatter_tensor_coalesced(outputs, inputs, options); });
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<std::int64_t>& output_sizes,
                                               std::vector<std::int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& options) override {
    return record("all_to_all", bytes_of(input),
                  [&] { return inner_->alltoall_base(output, input, output_sizes, input_sizes, options); });
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    return record("barrier", 0, [&] { return inner_->barrier(options); });
  }
  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int to, int tag) override {
    return record(
        "transfer", bytes_of(tensors), [&] { return inner_->send(tensors, to, tag); }, pair(getRank(), to));
  }
  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int from, int tag) override {
    return record(
        "transfer", bytes_of(tensors), [&] { return inner_->recv(tensors, from, tag); }, pair(from, getRank()));
  }

 private:
  /// Two members count what goes from one to the other for themselves.
  std::string pair(int from, int to) const {
    return group_ + ", member " + std::to_string(from) + " to " + std::to_string(to);
  }

  /// `group`: who counts the operation; "": all members.
  template <class Start>
  c10::intrusive_ptr<c10d::Work> record(const char* operation, std::int64_t bytes, Start start,
                                        const std::string& group = "") {
    const std::uint64_t ticket = journal_->begin(group.empty() ? group_ : group, operation, bytes);
    c10::intrusive_ptr<c10d::Work> work;
    try {
      work = start();
    } catch (const c10::DistError& error) {
      journal_->failed(ticket, core::as_error(error).what());
      throw;
    } catch (const std::exception&) {
      journal_->done(ticket);  // refused locally, before any peer took part
      throw;
    }
    const bool is_nccl = getBackendName() == "nccl";
    const auto future = future_of(*work, is_nccl);
    if (!future) return c10::make_intrusive<RecordedWork>(std::move(work), journal_, ticket);
    if (!is_nccl) return until_given_up(*future, journal_, ticket);
    future->addCallback(
        [journal = journal_, ticket](c10::ivalue::Future& ended) { note_nccl_end(ended, *journal, ticket); });
    return work;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::string group_;
  std::shared_ptr<FlightRecorder> journal_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> recorded(c10::intrusive_ptr<c10d::Backend> backend, std::string group,
                                           std::shared_ptr<FlightRecorder> journal) {
  if (!journal) return backend;
  return c10::make_intrusive<RecordedBackend>(std::move(backend), std::move(group), std::move(journal));
}

}  // namespace trainctl::comm

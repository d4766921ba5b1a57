// MPI, for tensors in host memory. One thread makes all MPI calls. It starts collectives as they arrive and polls those
// under way, so several run at once. A collective whose peer is absent fails at its deadline.
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/backend/future_work.h"
#include "comm/backend/mpi/plugin.h"

namespace trainctl::comm {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
using Future = c10::intrusive_ptr<c10::ivalue::Future>;

void expect(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  TORCH_CHECK_WITH(DistBackendError, false, what, ": ", text);
}

/// A collective: start() begins it, and finish() completes it after its messages arrive.
struct Call {
  std::function<int(MPI_Request*)> start;  // keeps the buffers of the messages alive
  std::function<void()> finish;
  bool has_started = false;
  Tensors results;
  const char* name = "";
  Future future;
  Clock::time_point deadline;
  MPI_Request request = MPI_REQUEST_NULL;
};

/// Thread that makes all MPI calls of the process.
class Speaker {
 public:
  Speaker() : thread_([this] { run(); }) {}
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  void submit(std::shared_ptr<Call> call) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(call));
    }
    wake_.notify_one();
  }

  /// Finalizes MPI on the thread that initialized it; otherwise mpirun reports the process as failed.
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  /// Runs `action` on the thread and waits for its end.
  void run_there(const std::function<void()>& action) {
    const auto call = std::make_shared<Call>();
    call->name = "a call";
    call->future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    call->deadline = Clock::time_point::max();
    call->start = [&action](MPI_Request*) {
      action();
      return MPI_SUCCESS;
    };
    submit(call);
    call->future->waitAndThrow();
  }

 private:
  void run() {
    start_mpi();
    while (true) {
      {
        std::unique_lock lock(mutex_);
        if (under_way_.empty()) wake_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
        if (ends_) break;
        while (!waiting_.empty()) {
          under_way_.push_back(std::move(waiting_.front()));
          waiting_.pop_front();
          is_new_ = true;
        }
      }
      start_new();
      if (!progress()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    MPI_Finalize();
  }

  void start_mpi() {
    int is_initialized = 0;
    MPI_Initialized(&is_initialized);
    if (is_initialized != 0) return;
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }

  void start_new() {
    if (!is_new_) return;
    is_new_ = false;
    for (const std::shared_ptr<Call>& call : under_way_) {
      if (std::exchange(call->has_started, true)) continue;
      try {
        expect(call->start(&call->request), call->name);
      } catch (const std::exception&) {
        call->future->setErrorIfNeeded(std::current_exception());
      }
    }
    under_way_.remove_if([](const std::shared_ptr<Call>& call) { return call->future->completed(); });
  }

  /// Polls the calls under way. Returns whether one of them ended.
  bool progress() {
    bool any = false;
    for (auto i = under_way_.begin(); i != under_way_.end();) {
      if (!has_ended(**i)) {
        ++i;
        continue;
      }
      i = under_way_.erase(i);
      any = true;
    }
    return any;
  }

  static bool has_ended(Call& call) {
    try {
      int done = 1;
      if (call.request != MPI_REQUEST_NULL) expect(MPI_Test(&call.request, &done, MPI_STATUS_IGNORE), call.name);
      if (done == 0 && Clock::now() > call.deadline) TORCH_CHECK_WITH(DistBackendError, false, call.name, " timed out");
      if (done == 0) return false;
      if (call.finish) call.finish();
      call.future->markCompleted(c10::IValue(call.results));
    } catch (const std::exception&) {
      call.future->setErrorIfNeeded(std::current_exception());
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Call>> waiting_;
  std::list<std::shared_ptr<Call>> under_way_;  // only the thread uses it
  bool is_new_ = false;
  bool ends_ = false;
  std::thread thread_;
};

Speaker& speaker() {
  // MPI is initialized once per process, and one thread serializes the calls of all groups.
  static Speaker* const speaker = [] {
    auto* const started = new Speaker;
    std::atexit([] { trainctl::comm::speaker().end(); });
    std::at_quick_exit([] { trainctl::comm::speaker().end(); });
    return started;
  }();
  return *speaker;
}

/// Returns MPI_DATATYPE_NULL for types that MPI can copy as bytes but cannot add.
MPI_Datatype datatype(at::ScalarType type) {
  const std::pair<at::ScalarType, MPI_Datatype> known[] = {
      {at::kFloat, MPI_FLOAT},   {at::kDouble, MPI_DOUBLE}, {at::kInt, MPI_INT32_T},  {at::kLong, MPI_INT64_T},
      {at::kShort, MPI_INT16_T}, {at::kChar, MPI_INT8_T},   {at::kByte, MPI_UINT8_T},
  };
  for (const auto& [ours, theirs] : known)
    if (ours == type) return theirs;
  return MPI_DATATYPE_NULL;
}

MPI_Op operation(const c10d::ReduceOp& reduce) {
  const c10d::ReduceOp::RedOpType type = reduce;
  if (type == c10d::ReduceOp::MAX) return MPI_MAX;
  if (type == c10d::ReduceOp::MIN) return MPI_MIN;
  TORCH_CHECK(type == c10d::ReduceOp::SUM, "over MPI tensors are summed, or their largest or smallest is taken");
  return MPI_SUM;
}

/// Converts 16-bit floats to fp32, since MPI neither sends nor adds them.
at::Tensor widened(const at::Tensor& tensor) {
  const bool is_short = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  const at::Tensor wide = is_short ? tensor.to(at::kFloat) : tensor;
  TORCH_CHECK(datatype(wide.scalar_type()) != MPI_DATATYPE_NULL, "MPI adds no ", c10::toString(tensor.scalar_type()));
  return wide;
}

int count_of(const at::Tensor& tensor, std::int64_t unit = 1) {
  TORCH_CHECK(tensor.numel() * unit <= std::numeric_limits<int>::max(), "MPI moves at most 2^31 elements at once");
  return static_cast<int>(tensor.numel() * unit);
}

int bytes_of(const at::Tensor& tensor) {
  return count_of(tensor, static_cast<std::int64_t>(tensor.element_size()));
}

class MpiBackend final : public c10d::Backend {
 public:
  MpiBackend(const BackendRequest& request, MPI_Comm communicator)
      : Backend(request.rank, request.size()), communicator_(communicator), timeout_(request.timeout) {}

  const std::string getBackendName() const override { return "mpi"; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    TORCH_CHECK(tensors.size() == 1, "one tensor at a time");
    const at::Tensor tensor = tensors.front();
    const at::Tensor wide = widened(tensor);
    const MPI_Op op = operation(options.reduceOp);
    Call call{.results = tensors, .name = "MPI_Iallreduce"};
    call.start = [=, this](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, wide.data_ptr(), count_of(wide), datatype(wide.scalar_type()), op,
                            communicator_, request);
    };
    if (!wide.is_same(tensor)) call.finish = [=] { tensor.copy_(wide); };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    TORCH_CHECK(tensors.size() == 1, "one tensor at a time");
    const at::Tensor tensor = tensors.front();
    const int root = static_cast<int>(options.rootRank);
    Call call{.results = tensors, .name = "MPI_Ibcast"};
    call.start = [=, this](MPI_Request* request) {
      return MPI_Ibcast(tensor.data_ptr(), bytes_of(tensor), MPI_BYTE, root, communicator_, request);
    };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    // An in-place caller may pass a part of the result.
    const at::Tensor from = input.clone();
    Call call{.results = {output}, .name = "MPI_Iallgather"};
    call.start = [=, this, to = output](MPI_Request* request) {
      return MPI_Iallgather(from.data_ptr(), bytes_of(from), MPI_BYTE, to.data_ptr(), bytes_of(from), MPI_BYTE,
                            communicator_, request);
    };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions&) override {
    TORCH_CHECK(inputs.size() == 1 && outputs.size() == 1, "one tensor at a time");
    const at::Tensor from = inputs.front();
    const at::Tensor all = at::empty({getSize(), from.numel()}, from.options());
    const Tensors to = outputs.front();
    Call call{.results = to, .name = "MPI_Iallgather"};
    call.start = [=, this](MPI_Request* request) {
      return MPI_Iallgather(from.data_ptr(), bytes_of(from), MPI_BYTE, all.data_ptr(), bytes_of(from), MPI_BYTE,
                            communicator_, request);
    };
    call.finish = [=] {
      for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(all[static_cast<std::int64_t>(i)].view(to[i].sizes()));
    };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override {
    const at::Tensor from = widened(input);
    const at::Tensor sum = at::empty({output.numel()}, from.options());
    const MPI_Op op = operation(options.reduceOp);
    Call call{.results = {output}, .name = "MPI_Ireduce_scatter_block"};
    call.start = [=, this](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(from.data_ptr(), sum.data_ptr(), count_of(sum), datatype(sum.scalar_type()), op,
                                       communicator_, request);
    };
    call.finish = [sum, to = output] { to.view({-1}).copy_(sum); };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<std::int64_t>& output_sizes,
                                               std::vector<std::int64_t>& input_sizes,
                                               const c10d::AllToAllOptions&) override {
    TORCH_CHECK(output_sizes.empty() && input_sizes.empty() && input.numel() % getSize() == 0,
                "members exchange parts of the same size");
    const int bytes = bytes_of(input) / getSize();
    Call call{.results = {output}, .name = "MPI_Ialltoall"};
    call.start = [=, this, from = input, to = output](MPI_Request* request) {
      return MPI_Ialltoall(from.data_ptr(), bytes, MPI_BYTE, to.data_ptr(), bytes, MPI_BYTE, communicator_, request);
    };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> send(Tensors& tensors, int to, int tag) override {
    TORCH_CHECK(tensors.size() == 1, "one tensor at a time");
    const at::Tensor tensor = tensors.front();
    Call call{.results = tensors, .name = "MPI_Isend"};
    call.start = [=, this](MPI_Request* request) {
      return MPI_Isend(tensor.data_ptr(), bytes_of(tensor), MPI_BYTE, to, tag, communicator_, request);
    };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> recv(Tensors& tensors, int from, int tag) override {
    TORCH_CHECK(tensors.size() == 1, "one tensor at a time");
    const at::Tensor tensor = tensors.front();
    Call call{.results = tensors, .name = "MPI_Irecv"};
    call.start = [=, this](MPI_Request* request) {
      return MPI_Irecv(tensor.data_ptr(), bytes_of(tensor), MPI_BYTE, from, tag, communicator_, request);
    };
    return submit(std::move(call));
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override {
    Call call{.name = "MPI_Ibarrier"};
    call.start = [this](MPI_Request* request) { return MPI_Ibarrier(communicator_, request); };
    return submit(std::move(call));
  }

 private:
  c10::intrusive_ptr<c10d::Work> submit(Call call) {
    call.future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    call.deadline = Clock::now() + timeout_;
    auto shared = std::make_shared<Call>(std::move(call));
    const Future future = shared->future;
    // The call's lambda refers to this backend, so the callback keeps the backend alive until the call ends.
    future->addCallback(
        [self = c10::intrusive_ptr<MpiBackend>::unsafe_reclaim_from_nonowning(this)](c10::ivalue::Future&) {});
    speaker().submit(std::move(shared));
    return c10::make_intrusive<FutureWork>(future);
  }

  MPI_Comm communicator_;
  std::chrono::milliseconds timeout_;
};

/// Makes a communicator of the members; only the members call it.
MPI_Comm make_communicator(const BackendRequest& request) {
  int world_rank = 0;
  int world_size = 0;
  expect(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank), "MPI_Comm_rank");
  expect(MPI_Comm_size(MPI_COMM_WORLD, &world_size), "MPI_Comm_size");
  const int expected = request.members[static_cast<std::size_t>(request.rank)];
  TORCH_CHECK(world_rank == expected && world_size > request.members.back(), "MPI says rank ", world_rank, " of ",
              world_size, ", the launcher says rank ", expected, ": start the ranks with mpirun");
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  expect(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  expect(MPI_Group_incl(all, request.size(), request.members.data(), &members), "MPI_Group_incl");
  expect(MPI_Comm_create_group(MPI_COMM_WORLD, members, /*tag=*/0, &communicator), "MPI_Comm_create_group");
  expect(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return communicator;
}

}  // namespace
}  // namespace trainctl::comm

extern "C" __attribute__((visibility("default"))) trainctl::comm::MpiBackendFunction trainctl_mpi_backend;

c10d::Backend* trainctl_mpi_backend(const trainctl::comm::BackendRequest& request) {
  MPI_Comm communicator = MPI_COMM_NULL;
  trainctl::comm::speaker().run_there([&] { communicator = trainctl::comm::make_communicator(request); });
  return c10::make_intrusive<trainctl::comm::MpiBackend>(request, communicator).release();
}

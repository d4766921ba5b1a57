// A collective that its backend loses sight of, as Gloo does of a send to a rank that has just died.
#include "comm/backend/traced_backend.h"

#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>

#include "comm/backend/c10d_group.h"
#include "comm/backend/future_work.h"
#include "support/manual_clock.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;
using c10::ivalue::Future;

/// Its all-reduces end when the test says so.
class SlowBackend final : public c10d::Backend {
 public:
  SlowBackend() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "slow"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    last = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    return c10::make_intrusive<FutureWork>(last);
  }
  c10::intrusive_ptr<Future> last;
};

struct Recorded {
  c10::intrusive_ptr<SlowBackend> inner = c10::make_intrusive<SlowBackend>();
  testing::ManualClock clock;
  std::shared_ptr<FlightRecorder> journal = std::make_shared<FlightRecorder>(clock.now());
  c10::intrusive_ptr<c10d::Backend> backend = recorded(inner, "all ranks", journal);

  c10::intrusive_ptr<c10d::Work> all_reduce() {
    std::vector<at::Tensor> tensors{at::ones({3})};
    return backend->allreduce(tensors, {});
  }
  void end(const c10::intrusive_ptr<Future>& future) { future->markCompleted(c10::List<at::Tensor>({at::ones({3})})); }
};

TEST_CASE("a collective that is given up ends with the reason, and its own end later changes nothing", "[comm]") {
  Recorded recorded;
  const auto work = recorded.all_reduce();
  const auto lost = recorded.inner->last;
  CHECK_FALSE(recorded.journal->fail_overdue(1h, "given up"));
  CHECK_FALSE(work->isCompleted());
  recorded.clock.advance(1ms);
  CHECK_FALSE(recorded.journal->fail_overdue(1ms, "given up"));
  recorded.clock.advance(1ms);
  CHECK(recorded.journal->fail_overdue(1ms, "given up"));
  CHECK_THROWS_WITH(work->wait(), Catch::Contains("given up after"));
  CHECK_THAT(recorded.journal->first_failure()->error, Catch::Contains("given up after"));
  recorded.end(lost);
  CHECK_FALSE(work->isSuccess());
}

TEST_CASE("a collective that has ended isn't given up", "[comm]") {
  Recorded recorded;
  const auto work = recorded.all_reduce();
  recorded.end(recorded.inner->last);
  recorded.clock.advance(2ms);
  CHECK_FALSE(recorded.journal->fail_overdue(1ms, "given up"));
  CHECK(work->wait());
  CHECK(work->result().front().equal(at::ones({3})));
}

TEST_CASE("a collective's error reaches who waits for it, and the journal", "[comm]") {
  Recorded recorded;
  const auto work = recorded.all_reduce();
  recorded.inner->last->setError(std::make_exception_ptr(std::runtime_error("connection closed by peer")));
  CHECK_THROWS_WITH(work->wait(), Catch::Contains("connection closed by peer"));
  CHECK(recorded.journal->first_failure()->error == "connection closed by peer");
}

/// NCCL's manners: the value of the future that ends with the work says how it ended.
class NcclLike final : public c10d::Backend {
 public:
  struct Operation final : c10d::Work {
    explicit Operation(c10::intrusive_ptr<Future> ended) : ended_(std::move(ended)) {}
    c10::intrusive_ptr<Future> getFutureResult() override { return ended_; }
    bool wait(std::chrono::milliseconds) override { return true; }  // orders a stream, and returns at once
    c10::intrusive_ptr<Future> ended_;
  };

  NcclLike() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "nccl"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    last = c10::make_intrusive<Future>(c10::IntType::get());
    return c10::make_intrusive<Operation>(last);
  }
  c10::intrusive_ptr<Future> last;
};

TEST_CASE("NCCL's result says whether a collective has failed", "[comm]") {
  const auto [result, error] = GENERATE(
      table<c10d::WorkResult, std::string>({{c10d::WorkResult::SUCCESS, ""},
                                            {c10d::WorkResult::TIMEOUT, "timed out in NCCL"},
                                            {c10d::WorkResult::COMM_ERROR, "NCCL's connection to a peer failed"}}));
  const auto inner = c10::make_intrusive<NcclLike>();
  const auto journal = std::make_shared<FlightRecorder>();
  const auto backend = recorded(inner, "all ranks", journal);
  std::vector<at::Tensor> tensors{at::ones({3})};
  backend->allreduce(tensors, {});
  CHECK(journal->any_under_way());
  inner->last->markCompleted(c10::IValue(static_cast<std::uint8_t>(result)));
  CHECK_FALSE(journal->any_under_way());
  CHECK((journal->first_failure() ? journal->first_failure()->error : "") == error);
}

TEST_CASE("after an abort no collective of the group has a result", "[comm]") {
  const auto inner = c10::make_intrusive<NcclLike>();
  const auto journal = std::make_shared<FlightRecorder>();
  const std::unique_ptr<Group> group =
      make_c10d_group({.name = "all ranks", .size = 2, .cpu = inner, .journal = journal});
  group->all_reduce(at::ones({3}), Reduce::sum)->wait();
  const std::unique_ptr<Work> work = group->all_reduce(at::ones({3}), Reduce::sum);
  journal->abort("given up");
  CHECK_FALSE(journal->any_under_way());
  CHECK_THROWS_WITH(work->wait(), Catch::Contains("this rank's collectives were ended"));
  CHECK_THROWS_WITH(group->all_reduce(at::ones({3}), Reduce::sum), Catch::Contains("were ended"));
  // NCCL's watchdog sees the aborted kernels end.
  inner->last->markCompleted(c10::IValue(static_cast<std::uint8_t>(c10d::WorkResult::SUCCESS)));
  CHECK(journal->last().at("all ranks").state == CollectiveEvent::State::failed);
}

}  // namespace
}  // namespace trainctl::comm

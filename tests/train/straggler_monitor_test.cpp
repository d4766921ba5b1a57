// Who is waited for, and how long ranks communicate.
#include "train/monitor/straggler_monitor.h"

#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <utility>

namespace trainctl::train {

TEST_CASE("the rank whose own time is much longer than the median's is named, with its data where that is why",
          "[train][dist]") {
  std::vector<RankTime> ranks(4, RankTime{.own_ms = 100});
  CHECK_FALSE(find_straggler(ranks));
  ranks[2].own_ms = 119;
  CHECK_FALSE(find_straggler(ranks));
  ranks[2].own_ms = 150;
  const std::optional<Straggler> slow = find_straggler(ranks);
  REQUIRE(slow);
  CHECK(slow->rank == 2);
  CHECK_THAT(slow->text, Catch::StartsWith("rank 2 is slow") && !Catch::Contains("data"));
  ranks[2].data_wait_ms = 45;
  CHECK_THAT(find_straggler(ranks)->text, Catch::Contains("for data"));
}

TEST_CASE("of two ranks the slower is named; differences too small to matter, and a process alone, aren't",
          "[train][dist]") {
  CHECK(find_straggler({{.own_ms = 100}, {.own_ms = 130}})->rank == 1);
  CHECK_FALSE(find_straggler({{.own_ms = 1}, {.own_ms = 2}}));
  CHECK_FALSE(find_straggler({{.own_ms = 100}}));
}

TEST_CASE("ranks are compared with those of their own stage", "[train][dist]") {
  // The second stage has twice the work.
  std::vector<RankTime> ranks{
      {.own_ms = 100}, {.own_ms = 100}, {.own_ms = 200, .stage = 1}, {.own_ms = 200, .stage = 1}};
  CHECK_FALSE(find_straggler(ranks));
  ranks[1].own_ms = 130;
  REQUIRE(find_straggler(ranks));
  CHECK_THAT(find_straggler(ranks)->text, Catch::StartsWith("rank 1 of stage 0 is slow"));
  ranks[3].own_ms = 250;  // longer by more
  CHECK(find_straggler(ranks)->rank == 3);
  CHECK(find_straggler(ranks)->longer_ms == 50);
  CHECK_FALSE(find_straggler({{.own_ms = 100}, {.own_ms = 300, .stage = 1}}));
}

namespace {

/// The view that rank 0 has of a group, without the other ranks.
class FakeGroup final : public comm::Group {
 public:
  /// `others`: the five figures that each other rank sends.
  FakeGroup(comm::CommunicationTime time, std::vector<std::vector<double>> others)
      : time_(time), others_(std::move(others)) {}

  std::int64_t rank() const override { return 0; }
  std::int64_t size() const override { return static_cast<std::int64_t>(others_.size()) + 1; }
  std::unique_ptr<comm::Work> all_gather(at::Tensor all, at::Tensor mine) override {
    const auto of_rank = all.chunk(size());
    of_rank[0].copy_(mine);
    for (std::size_t i = 0; i < others_.size(); ++i) of_rank[i + 1].copy_(at::tensor(others_[i], at::kDouble));
    return comm::alone()->all_reduce(mine, comm::Reduce::sum);  // done at once
  }
  comm::CommunicationTime take_communication_time() override { return time_; }

  std::unique_ptr<comm::Work> all_reduce(at::Tensor, comm::Reduce) override { return nullptr; }
  std::unique_ptr<comm::Work> reduce_scatter(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> broadcast(at::Tensor, std::int64_t) override { return nullptr; }
  std::unique_ptr<comm::Work> all_to_all(at::Tensor, at::Tensor) override { return nullptr; }
  std::unique_ptr<comm::Work> isend(at::Tensor, std::int64_t) override { return nullptr; }
  std::unique_ptr<comm::Work> irecv(at::Tensor, std::int64_t) override { return nullptr; }
  void barrier() override {}
  const std::vector<std::int64_t>& nodes() const override { return nodes_; }
  std::unique_ptr<Group> split(const std::string&, const std::vector<std::int64_t>&) override { return nullptr; }

 private:
  comm::CommunicationTime time_;
  std::vector<std::vector<double>> others_;
  std::vector<std::int64_t> nodes_;
};

constexpr Throughput::Window kTenSteps{.step_ms = 10, .total_ms = 100};

}  // namespace

TEST_CASE("communication is a mean over ranks per step, and a lasting straggler is named once", "[train]") {
  FakeGroup group({.busy_ms = 40, .exposed_ms = 20}, {{6, 4, 6, 0, 0}, {2, 0, 10, 3, 0}});
  StragglerMonitor monitor(group, 0);
  const StragglerMonitor::Window first = monitor.take_window(kTenSteps);
  CHECK(first.communication_ms == Approx((4 + 6 + 2) / 3.0));
  CHECK(first.exposed_ms == Approx((2 + 4 + 0) / 3.0));
  CHECK_FALSE(first.straggler);  // it may be a moment's
  const StragglerMonitor::Window second = monitor.take_window(kTenSteps);
  REQUIRE(second.straggler);
  CHECK_THAT(*second.straggler, Catch::StartsWith("rank 2 is slow"));
  CHECK_FALSE(monitor.take_window(kTenSteps).straggler);
}

TEST_CASE("a process alone has no communication, whatever its group counts", "[train]") {
  FakeGroup group({.busy_ms = 40, .exposed_ms = 20}, {});
  StragglerMonitor monitor(group, 0);
  const StragglerMonitor::Window window = monitor.take_window(kTenSteps);
  CHECK(window.communication_ms == 0);
  CHECK(window.exposed_ms == 0);
  CHECK_FALSE(window.straggler);
}

}  // namespace trainctl::train

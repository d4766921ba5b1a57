#include "comm/group.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "comm/backend/c10d_group.h"
#include "comm/world.h"
#include "members.h"

namespace trainctl::comm {
namespace {

using namespace std::chrono_literals;
using testing::no_errors;
using testing::on_threads;

at::Tensor numbers_of(std::int64_t member, std::int64_t size, at::ScalarType type) {
  return at::arange(size, at::kDouble).mul(0.37).add(static_cast<double>(member) * 1.1).sin().to(type);
}

TEST_CASE("a group of one gives back what it is given", "[comm]") {
  const std::unique_ptr<Group> group = alone();
  const at::Tensor tensor = at::arange(5, at::kFloat);
  const at::Tensor all = at::zeros({5});
  group->all_reduce(tensor, Reduce::sum)->wait();
  group->all_gather(all, tensor)->wait();
  group->barrier();
  REQUIRE(group->size() == 1);
  REQUIRE(at::equal(tensor, at::arange(5, at::kFloat)));
  REQUIRE(at::equal(all, tensor));
}

TEST_CASE("threads exchange tensors of other devices, which Gloo refuses", "[comm]") {
  const auto groups = thread_groups(2, 20s);
  const auto errors = on_threads(2, [&](std::int64_t member) {
    Group& group = *groups[static_cast<std::size_t>(member)];
    const at::Tensor mine = at::ones({3}, at::kMeta);
    group.all_reduce(mine, Reduce::sum)->wait();
    process_group(group)->getBackend(c10::kCUDA);  // c10d::Reducer looks for it
  });
  CHECK(errors == no_errors(2));
  const std::unique_ptr<Group> group =
      make_c10d_group({.name = "all ranks", .cpu = process_group(*groups[0])->getBackend(c10::kCPU)});
  CHECK_THROWS_WITH(group->all_reduce(at::ones({3}, at::kMeta), Reduce::sum),
                    Catch::Contains("no backend moves tensors of meta"));
}

TEST_CASE("threads sum, gather, scatter and broadcast", "[comm]") {
  for (const std::int64_t n : {1, 2, 3, 4}) {
    const auto groups = thread_groups(n, 20s);
    const auto errors = on_threads(n, [&](std::int64_t member) {
      Group& group = *groups[static_cast<std::size_t>(member)];
      const at::Tensor mine = at::full({300'000}, static_cast<double>(member + 1));
      group.all_reduce(mine, Reduce::sum)->wait();
      if (mine[299'999].item<double>() != static_cast<double>(n * (n + 1) / 2)) throw std::logic_error("sum");

      const at::Tensor all = at::empty({n, 3}, at::kBool);
      group.all_gather(all, at::full({3}, member % 2 == 0, at::kBool))->wait();
      for (std::int64_t i = 0; i < n; ++i)
        if (all[i][2].item<bool>() != (i % 2 == 0)) throw std::logic_error("gather");

      const at::Tensor part = at::empty({2}, at::kLong);
      group.reduce_scatter(part, at::arange(2 * n, at::kLong).mul(member + 1))->wait();
      if (part[1].item<std::int64_t>() != (2 * member + 1) * n * (n + 1) / 2) throw std::logic_error("scatter");

      const at::Tensor value = at::full({}, static_cast<double>(member), at::kDouble);
      group.broadcast(value, n - 1)->wait();
      if (value.item<std::int64_t>() != n - 1) throw std::logic_error("broadcast");

      const at::Tensor largest = at::full({1}, static_cast<double>(member));
      group.all_reduce(largest, Reduce::max)->wait();
      if (largest.item<std::int64_t>() != n - 1) throw std::logic_error("max");
      group.barrier();
    });
    REQUIRE(errors == no_errors(n));
  }
}

/// What every kind of group must do between its members.
void exchange(Group& group) {
  const std::int64_t n = group.size();
  const std::int64_t rank = group.rank();
  const at::Tensor all = at::empty({n, 2}, at::kLong);
  group.all_to_all(all, at::arange(2 * n, at::kLong).add(100 * rank))->wait();
  for (std::int64_t from = 0; from < n; ++from)
    if (all[from][1].item<std::int64_t>() != 100 * from + 2 * rank + 1) throw std::logic_error("all_to_all");
  if (n == 1) return;
  // Around the ring, two tensors each way; both are under way before one is waited for.
  const std::int64_t next = (rank + 1) % n;
  const std::int64_t previous = (rank + n - 1) % n;
  const at::Tensor first = at::empty({3}, at::kBFloat16);
  const at::Tensor second = at::empty({4, 1'000}, at::kDouble);
  std::vector<std::unique_ptr<Work>> pending;
  pending.push_back(group.irecv(first, previous));
  pending.push_back(group.isend(at::full({3}, static_cast<double>(rank), at::kBFloat16), next));
  pending.push_back(group.isend(at::full({4, 1'000}, rank + 0.5, at::kDouble), next));
  pending.push_back(group.irecv(second, previous));
  for (const std::unique_ptr<Work>& one : pending) one->wait();
  if (first[2].item<double>() != static_cast<double>(previous)) throw std::logic_error("first");
  if (second[3][999].item<double>() != static_cast<double>(previous) + 0.5) throw std::logic_error("second");
}

TEST_CASE("members exchange parts, and send to one another in order", "[comm]") {
  for (const std::int64_t n : {1, 2, 3, 4}) {
    const auto groups = thread_groups(n, 20s);
    CHECK(on_threads(n, [&](std::int64_t member) { exchange(*groups[static_cast<std::size_t>(member)]); }) ==
          no_errors(n));
  }
  exchange(*alone());
}

TEST_CASE("members that one of two ignores, or that bring other sizes, are told", "[comm]") {
  const auto groups = thread_groups(3, 5s);
  const auto errors = on_threads(3, [&](std::int64_t member) {
    if (member == 0) groups[0]->isend(at::ones({4}), 1)->wait();
  });
  CHECK_THAT(errors[0], Catch::Contains("transfer of 16 Byte: member 1 never came"));
  const auto others = thread_groups(2, 20s);
  const auto mismatches = on_threads(2, [&](std::int64_t member) {
    if (member == 0) others[0]->isend(at::ones({4}), 1)->wait();
    if (member == 1) others[1]->irecv(at::ones({5}), 0)->wait();
  });
  for (const std::string& error : mismatches) CHECK_THAT(error, Catch::Contains("tensors of different sizes"));
}

TEST_CASE("groups are split again and again", "[comm]") {
  const auto groups = thread_groups(8, 20s);
  REQUIRE(on_threads(8, [&](std::int64_t rank) {
            Group& all = *groups[static_cast<std::size_t>(rank)];
            const std::int64_t first = rank / 4 * 4;
            const auto half = all.split("half", {first + 3, first + 2, first + 1, first});
            if (half->rank() != 3 - rank % 4) throw std::logic_error("place in the half");
            const std::int64_t even = half->rank() / 2 * 2;
            const auto pair = half->split("pair", {even, even + 1});
            const auto same = half->split("pair", {even, even + 1});
            const std::int64_t mine = rank / 2 * 2;
            const auto from_all = all.split("pair", {mine + 1, mine});  // the same members in the same order
            for (const auto& group : {&pair, &same, &from_all}) {
              const at::Tensor sum = at::full({1}, rank, at::kLong);
              (*group)->all_reduce(sum, Reduce::sum)->wait();
              if (sum.item<std::int64_t>() != rank / 2 * 4 + 1) throw std::logic_error("sum of a pair");
            }
          }) == no_errors(8));
}

TEST_CASE("threads sum 16-bit numbers in fp32", "[comm]") {
  const auto groups = thread_groups(4, 20s);
  std::vector<at::Tensor> sums(4);
  const auto errors = on_threads(4, [&](std::int64_t member) {
    const at::Tensor mine = at::full({8}, member == 0 ? 256.0 : 1.0, at::kBFloat16);
    groups[static_cast<std::size_t>(member)]->all_reduce(mine, Reduce::sum)->wait();
    sums[static_cast<std::size_t>(member)] = mine;
  });
  REQUIRE(errors == no_errors(4));
  // 256 + 1 rounds to 256 in bf16; 259 rounds to 260.
  for (const at::Tensor& sum : sums) REQUIRE(sum[3].item<float>() == 260.0F);
}

TEST_CASE("sums over threads have the same bits on all members and on every run", "[comm]") {
  for (const std::int64_t n : {2, 3, 4}) {
    std::vector<at::Tensor> sums;
    for (int run = 0; run < 3; ++run) {
      const auto groups = thread_groups(n, 20s);
      std::vector<at::Tensor> of_run(static_cast<std::size_t>(n));
      REQUIRE(on_threads(n, [&](std::int64_t member) {
                of_run[static_cast<std::size_t>(member)] = numbers_of(member, 4097, at::kFloat);
                groups[static_cast<std::size_t>(member)]
                    ->all_reduce(of_run[static_cast<std::size_t>(member)], Reduce::sum)
                    ->wait();
              }) == no_errors(n));
      sums.insert(sums.end(), of_run.begin(), of_run.end());
    }
    for (const at::Tensor& sum : sums) REQUIRE(at::equal(sum, sums.front()));
  }
}

TEST_CASE("a thread that never comes is named when the time is over", "[comm]") {
  auto groups = thread_groups(3, 5s);
  const auto errors = on_threads(3, [&](std::int64_t member) {
    if (member == 1) return;
    groups[static_cast<std::size_t>(member)]->all_reduce(at::ones({16}), Reduce::sum)->wait();
  });
  REQUIRE(errors[1].empty());
  REQUIRE_THAT(errors[0], Catch::Contains("all_reduce of 64 B failed: timed out after"));
  REQUIRE_THAT(errors[2], Catch::Contains("member 1 never came"));
}

TEST_CASE("a thread that ends is noticed at once", "[comm]") {
  auto groups = thread_groups(2, 60s);
  std::promise<void> has_begun;
  const auto errors = on_threads(2, [&](std::int64_t member) {
    if (member == 0) {
      const std::unique_ptr<Work> work = groups[0]->broadcast(at::ones({4}), 1);
      has_begun.set_value();
      work->wait();
    } else {
      has_begun.get_future().wait();
      groups[1].reset();
    }
  });
  REQUIRE_THAT(errors[0], Catch::Contains("member 1 has left"));
  REQUIRE_THROWS_WITH(groups[0]->barrier(), Catch::Contains("member 1 has left"));
}

TEST_CASE("threads that call different collectives are told who wants what", "[comm]") {
  const auto groups = thread_groups(2, 60s);
  const auto errors = on_threads(2, [&](std::int64_t member) {
    groups[static_cast<std::size_t>(member)]->all_reduce(at::ones({16 + member}), Reduce::sum)->wait();
  });
  for (const std::string& error : errors) {
    REQUIRE_THAT(error, Catch::Contains("all_reduce of 16 Float"));
    REQUIRE_THAT(error, Catch::Contains("all_reduce of 17 Float"));
  }
}

TEST_CASE("several collectives are under way at once", "[comm]") {
  const auto groups = thread_groups(3, 20s);
  REQUIRE(on_threads(3, [&](std::int64_t member) {
            Group& group = *groups[static_cast<std::size_t>(member)];
            std::vector<at::Tensor> tensors;
            std::vector<std::unique_ptr<Work>> pending;
            for (int i = 0; i < 50; ++i) {
              tensors.push_back(at::full({100}, static_cast<double>(i)));
              pending.push_back(group.all_reduce(tensors.back(), Reduce::sum));
            }
            for (int i = 49; i >= 0; --i) {
              pending[static_cast<std::size_t>(i)]->wait();
              if (tensors[static_cast<std::size_t>(i)][7].item<double>() != 3.0 * i) throw std::logic_error("sum");
            }
          }) == no_errors(3));
}

TEST_CASE("alone has no process group, others have", "[comm]") {
  REQUIRE(!process_group(*alone()));
  const auto groups = thread_groups(2, 1s);
  REQUIRE(process_group(*groups[1])->getRank() == 1);
}

}  // namespace
}  // namespace trainctl::comm

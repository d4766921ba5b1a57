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
  auto groups = thread_groups(3, 300ms);
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
  const auto errors = on_threads(2, [&](std::int64_t member) {
    if (member == 0) {
      groups[0]->broadcast(at::ones({4}), 1)->wait();
    } else {
      std::this_thread::sleep_for(50ms);
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

#include "runtime/memory.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "machine/limits.h"

namespace trainctl::runtime {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

at::Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::kByte);
}

std::int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

bool nearly(std::int64_t value, std::int64_t expected) {
  return std::abs(value - expected) <= 16384;
}

TEST_CASE("what is taken during a pause isn't in the peak afterwards, unless it stays", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  reset_host_peak();
  const std::int64_t before = host_memory().current;
  { const at::Tensor first = bytes(2 * kMiB); }
  at::Tensor stays;
  {
    const HostPeakPause pause;
    { const at::Tensor trial = bytes(8 * kMiB); }
    CHECK(nearly(host_memory().peak - before, 8 * kMiB));
    stays = bytes(kMiB);
  }
  CHECK(nearly(host_memory().peak - before, 2 * kMiB));
  {
    const HostPeakPause pause;
    stays = bytes(4 * kMiB);
  }
  CHECK(nearly(host_memory().peak - before, 4 * kMiB));
}

/// Replicas begin like this: each installs the allocator, while those before it compute.
TEST_CASE("threads install the allocator, allocate and free at once, also what others have allocated", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  const std::int64_t before = host_memory().current;
  constexpr int kThreads = 8;
  constexpr int kRounds = 500;
  std::mutex mutex;
  std::vector<at::Tensor> passed_on;
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int round = 0; round < kRounds; ++round) {
        install_host_allocator(HostMemory::cached);
        const auto size = static_cast<std::size_t>(1 + random() % (random() % 4 == 0 ? 200'000 : 4'000));
        at::Tensor mine = bytes(static_cast<std::int64_t>(size));
        auto* const data = mine.mutable_data_ptr<std::uint8_t>();
        std::memset(data, thread, size);
        if (data[0] != thread || data[size - 1] != thread) ++num_wrong;
        if (round % 16 == 0) release_host_cache();
        const std::lock_guard lock(mutex);
        if (passed_on.size() > 50) passed_on.erase(passed_on.begin(), passed_on.begin() + 25);
        passed_on.push_back(std::move(mine));
      }
    });
  for (std::thread& thread : threads) thread.join();
  passed_on.clear();
  CHECK(num_wrong == 0);
  CHECK(host_memory().current == before);
}

TEST_CASE("live and peak bytes of tensors are counted with and without caching", "[runtime]") {
  const HostMemory kind = GENERATE(HostMemory::cached, HostMemory::system);
  install_host_allocator(kind);
  reset_host_peak();
  const std::int64_t before = host_memory().current;
  {
    const at::Tensor a = bytes(10 * kMiB);
    CHECK(nearly(host_memory().current - before, 10 * kMiB));
    { const at::Tensor b = bytes(20 * kMiB); }
    CHECK(nearly(host_memory().current - before, 10 * kMiB));
    CHECK(nearly(host_memory().peak - before, 30 * kMiB));
    reset_host_peak();
    CHECK(nearly(host_memory().peak - before, 10 * kMiB));
  }
  CHECK(host_memory().current == before);
  CHECK(host_memory().reserved >= host_memory().current);
}

TEST_CASE("tensors outlive a change of the kind of memory", "[runtime]") {
  install_host_allocator(HostMemory::system);
  at::Tensor from_system = at::ones({1000});
  install_host_allocator(HostMemory::cached);
  at::Tensor from_cache = at::ones({1000});
  from_system.reset();
  install_host_allocator(HostMemory::system);
  from_cache.reset();
  install_host_allocator(HostMemory::cached);
  SUCCEED();
}

TEST_CASE("tensors of no elements take nothing", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  const std::int64_t before = host_memory().current;
  const at::Tensor empty = bytes(0);
  CHECK(empty.numel() == 0);
  CHECK(host_memory().current == before);
}

TEST_CASE("the raw interface that oneDNN uses works", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  c10::Allocator* allocator = c10::GetAllocator(c10::kCPU);
  void* data = allocator->raw_allocate(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(data) % 64 == 0);
  std::memset(data, 5, 1000);
  const c10::DataPtr copy = allocator->clone(data, 1000);
  CHECK(std::memcmp(copy.get(), data, 1000) == 0);
  allocator->raw_deallocate(data);
  const std::int64_t before = host_memory().current;
  allocator->raw_deallocate(nullptr);
  CHECK(host_memory().current == before);
}

TEST_CASE("a step that repeats the last one faults in no memory", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  const auto step = [] {
    at::Tensor sum = at::zeros({512, 1024});
    for (int i = 0; i < 8; ++i) sum = at::add(at::randn({512, 1024}), sum, 0.5);
    return sum;
  };
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t before = page_faults();
  for (int i = 0; i < 5; ++i) step();
#ifndef TRAINCTL_SANITIZED
  CHECK(page_faults() - before < 100);  // 5 steps of the system's memory take some 70,000
#else
  CHECK(before > 0);
#endif
}

TEST_CASE("released cache is no longer reserved", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  { const at::Tensor large = at::zeros({200 * kMiB}, at::kByte); }
  release_host_cache();
  CHECK(host_memory().reserved - host_memory().current < 100 * kMiB);
}

TEST_CASE("a tensor larger than the machine is an error that says how large and what to try", "[runtime]") {
  install_host_allocator(HostMemory::cached);
  const auto too_large = static_cast<std::int64_t>(machine::usable_memory()) + 1;
  std::string told;
  try {
    bytes(too_large);
  } catch (const std::exception& error) {
    told = core::as_error(error).text();
  }
  CHECK_THAT(told, Catch::Contains("out of memory: cannot allocate") && Catch::Contains("GiB of host memory") &&
                       Catch::Contains("'trainctl plan' says what a run takes"));
  CHECK(bytes(kMiB).defined());
}

}  // namespace
}  // namespace trainctl::runtime

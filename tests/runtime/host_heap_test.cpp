#include "runtime/host_heap.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace trainctl::runtime {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr std::size_t kMebibyte = std::size_t{1} << 20;

struct Held {
  void* data;
  std::size_t bytes;
  unsigned char mark;
};

/// Whether the first, middle and last byte are still what was written.
bool intact(const Held& held) {
  const auto* bytes = static_cast<const unsigned char*>(held.data);
  return bytes[0] == held.mark && bytes[held.bytes / 2] == held.mark && bytes[held.bytes - 1] == held.mark;
}

void write(const Held& held) {
  auto* bytes = static_cast<unsigned char*>(held.data);
  bytes[0] = bytes[held.bytes / 2] = bytes[held.bytes - 1] = held.mark;
}

/// Sizes as a training step has them: most small, some of megabytes.
std::size_t any_size(std::mt19937& random) {
  const unsigned exponent = random() % 22;
  return 1 + random() % (std::size_t{2} << exponent);
}

void churn(HostHeap& heap, unsigned seed, int rounds, std::atomic<int>& failures) {
  std::mt19937 random(seed);
  std::vector<Held> live;
  for (int round = 0; round < rounds; ++round) {
    if (live.size() > 60 || (!live.empty() && random() % 2 == 0)) {
      const std::size_t chosen = random() % live.size();
      if (!intact(live[chosen]) || HostHeap::requested(live[chosen].data) != live[chosen].bytes) ++failures;
      heap.release(live[chosen].data);
      live[chosen] = live.back();
      live.pop_back();
    } else {
      const std::size_t bytes = any_size(random);
      const Held held{heap.allocate(bytes), bytes, static_cast<unsigned char>(random())};
      if (!held.data || reinterpret_cast<std::uintptr_t>(held.data) % 64 != 0) ++failures;
      write(held);
      live.push_back(held);
    }
  }
  for (const Held& held : live) {
    if (!intact(held)) ++failures;
    heap.release(held.data);
  }
}

TEST_CASE("blocks are aligned, apart from each other, and keep what is written in them", "[runtime]") {
  HostHeap heap(4 * kGiB);
  std::atomic<int> failures = 0;
  churn(heap, 1, 20000, failures);
  CHECK(failures == 0);
}

TEST_CASE("threads may allocate and free at once", "[runtime]") {
  HostHeap heap(4 * kGiB);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back([&, seed] { churn(heap, seed, 5000, failures); });
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a block freed by another thread is used again", "[runtime]") {
  HostHeap heap(4 * kGiB);
  void* first = heap.allocate(5 * kMebibyte);
  std::thread([&] { heap.release(first); }).join();
  void* second = heap.allocate(5 * kMebibyte);
  CHECK(second == first);
  heap.release(second);
}

TEST_CASE("a repeated pattern of sizes gets the same addresses and no new pages", "[runtime]") {
  HostHeap heap(4 * kGiB);
  const auto step = [&] {
    std::set<void*> addresses;
    std::vector<void*> live;
    for (std::size_t i = 1; i <= 40; ++i) live.push_back(heap.allocate(i * 100'000));
    addresses.insert(live.begin(), live.end());
    for (void* data : live) heap.release(data);
    return addresses;
  };
  const auto first = step();
  const std::size_t reserved = heap.reserved();
  CHECK(step() == first);
  CHECK(heap.reserved() == reserved);
  CHECK(reserved <= 40 * 41 / 2 * 100'000 + 2 * HostHeap::kPage);
}

TEST_CASE("neighbours that are free become one block, whatever the order", "[runtime]") {
  HostHeap heap(4 * kGiB);
  std::mt19937 random(3);
  std::vector<void*> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(heap.allocate(kMebibyte));
  void* fence = heap.allocate(kMebibyte);  // keeps the rest from merging with what was never used
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (void* block : blocks) heap.release(block);
  const std::size_t reserved = heap.reserved();
  void* whole = heap.allocate(64 * kMebibyte);
  CHECK(whole < fence);
  CHECK(heap.reserved() == reserved);
  heap.release(whole);
  heap.release(fence);
}

TEST_CASE("released cache goes back to the system and live blocks stay", "[runtime]") {
  HostHeap heap(4 * kGiB);
  void* below = heap.allocate(100 * kMebibyte);
  const Held kept{heap.allocate(10 * kMebibyte), 10 * kMebibyte, 77};
  void* above = heap.allocate(100 * kMebibyte);
  std::memset(below, 1, 100 * kMebibyte);
  std::memset(above, 1, 100 * kMebibyte);
  write(kept);
  heap.release(below);
  heap.release(above);
  CHECK(heap.reserved() >= 210 * kMebibyte);
  heap.release_cache();
  CHECK(heap.reserved() <= 10 * kMebibyte + 3 * HostHeap::kPage);
  CHECK(intact(kept));
  void* again = heap.allocate(100 * kMebibyte);
  std::memset(again, 2, 100 * kMebibyte);
  CHECK(intact(kept));
  heap.release(again);
  heap.release(kept.data);
}

TEST_CASE("what is held is bounded by half as much again as was ever in use", "[runtime]") {
  HostHeap heap(16 * kGiB);
  std::vector<void*> fences;
  std::size_t bytes = kMebibyte;  // each too large for the holes that the last ones left
  for (int i = 0; i < 400; ++i, bytes += kMebibyte / 4) {
    void* block = heap.allocate(bytes);
    fences.push_back(heap.allocate(8192));
    heap.release(block);
  }
  CHECK(heap.reserved() <= 400 * kMebibyte);
  for (void* fence : fences) heap.release(fence);
}

TEST_CASE("what doesn't fit is refused and breaks nothing", "[runtime]") {
  HostHeap heap(kGiB);
  CHECK(heap.allocate(2 * kGiB) == nullptr);
  CHECK(heap.allocate(~std::size_t{0}) == nullptr);
  void* most = heap.allocate(kGiB - HostHeap::kPage);
  REQUIRE(most != nullptr);
  CHECK(heap.allocate(4 * kMebibyte) == nullptr);
  heap.release(most);
  void* again = heap.allocate(kGiB / 2);
  CHECK(again == most);
  heap.release(again);
}

}  // namespace
}  // namespace trainctl::runtime

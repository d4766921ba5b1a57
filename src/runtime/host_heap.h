// Memory for tensors out of one reserved stretch of address space: pages once touched stay mapped, so that a step which
// repeats the last one faults none in. Two-level segregated fit with immediate coalescing
// (https://doi.org/10.1109/EMRTS.2004.1311009), which keeps fragmentation near best-fit's at constant cost; blocks up
// to 4 KiB come from slabs. Safe to use from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/free_space.h"

namespace trainctl::runtime {

class HostHeap {
 public:
  /// Reserves `address_space` bytes (less where the system refuses); takes no memory until blocks are used.
  explicit HostHeap(std::size_t address_space);
  ~HostHeap();
  HostHeap(const HostHeap&) = delete;
  HostHeap& operator=(const HostHeap&) = delete;

  /// 64-byte aligned, contents undefined; nullptr when the system gives no more.
  void* allocate(std::size_t bytes);
  void release(void* data);

  bool owns(const void* data) const { return data >= base_ && data < base_ + capacity_; }
  /// The bytes asked for when `data` was allocated.
  static std::size_t requested(const void* data);

  /// Pages held from the system, in bytes.
  std::size_t reserved() const { return num_held_pages_.load(std::memory_order_relaxed) * kPage; }
  /// Returns all free pages to the system.
  void release_cache();
  /// Returns the free space in the held pages. Slabs of small blocks count as used; the caller sets `allocated`.
  FreeSpace free_space();

  static constexpr std::size_t kPage = std::size_t{2} << 20;  // a huge page

 private:
  struct Block;

  static constexpr std::size_t kLevels = 44;       // powers of two
  static constexpr std::size_t kSublevelBits = 4;  // 16 lists each
  static constexpr std::size_t kSublevels = std::size_t{1} << kSublevelBits;
  static constexpr std::size_t kSmallClasses = 64;  // multiples of 64 bytes up to 4 KiB

  struct Slot {
    std::size_t level;
    std::size_t sublevel;
  };
  static Slot slot_of(std::size_t size);

  void* allocate_small(std::size_t bytes);
  void* allocate_large(std::size_t bytes);
  Block* take_fitting(std::size_t size);
  Block* take_from_top(std::size_t size);
  bool make_accessible(std::size_t end);
  void split(Block* block, std::size_t size);
  void add_free(Block* block);
  void unlink(Block* block);
  void hold_pages(const Block* block);
  void return_pages(std::byte* begin, std::byte* end);
  void return_free_pages();
  std::size_t held_bytes(const std::byte* begin, const std::byte* end) const;

  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::atomic<std::size_t> num_held_pages_ = 0;

  std::mutex small_mutex_;
  std::array<Block*, kSmallClasses + 1> small_free_{};

  std::mutex mutex_;              // guards all below
  std::size_t top_ = 0;           // offset where never-used space (or space merged back into it) begins
  std::size_t top_previous_ = 0;  // size of the block that ends at top_
  std::size_t accessible_ = 0;    // offset up to which pages may be touched
  std::size_t used_ = 0;
  std::size_t max_used_ = 0;
  std::size_t trim_above_ = 0;
  std::vector<bool> held_;    // by page: given out since it was last returned
  std::uint64_t levels_ = 0;  // bit: some list of the level has a block
  std::array<std::uint32_t, kLevels> sublevels_{};
  std::array<std::array<Block*, kSublevels>, kLevels> free_{};
};

}  // namespace trainctl::runtime

#include "runtime/host_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace trainctl::runtime {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMinSplit = 4096;                      // a smaller remainder stays with its block
constexpr std::size_t kSlab = std::size_t{64} << 10;         // small blocks are cut from slabs of this size
constexpr std::size_t kGrowth = std::size_t{32} << 20;       // address space is made accessible in steps of this size
constexpr std::size_t kKeptAnyway = std::size_t{256} << 20;  // never trim below this size
constexpr std::size_t kMinReservation = std::size_t{1} << 30;
constexpr int kScanned = 16;  // number of blocks scanned for the best fit in the request's own list

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

enum class Use : std::uint32_t { free, large, small };

}  // namespace

/// Header before every block's data. Free lists link the headers, so freeing touches no data.
struct alignas(kAlignment) HostHeap::Block {
  std::size_t size;           // includes this header
  std::size_t previous_size;  // size of the block below; 0 for the first
  std::size_t requested;
  Use use;
  Block* next;
  Block* previous;

  void* data() { return this + 1; }
  static Block* of(void* data) { return static_cast<Block*>(data) - 1; }
  Block* above() { return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + size); }
  Block* below() { return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) - previous_size); }
  std::byte* end() { return reinterpret_cast<std::byte*>(this) + size; }
};

HostHeap::HostHeap(std::size_t address_space) {
  for (std::size_t size = round_up(address_space, kPage); size >= kMinReservation; size = round_up(size / 2, kPage)) {
    void* start = ::mmap(nullptr, size + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    const std::uintptr_t aligned = round_up(address, kPage);
    if (aligned > address) ::munmap(start, aligned - address);
    if (address + kPage > aligned) ::munmap(reinterpret_cast<void*>(aligned + size), address + kPage - aligned);
    base_ = reinterpret_cast<std::byte*>(aligned);
    capacity_ = size;
    break;
  }
  held_.resize(capacity_ / kPage + 1);
}

HostHeap::~HostHeap() {
  if (base_) ::munmap(base_, capacity_);
}

std::size_t HostHeap::requested(const void* data) {
  return Block::of(const_cast<void*>(data))->requested;
}

void* HostHeap::allocate(std::size_t bytes) {
  if (bytes > capacity_) return nullptr;
  return bytes <= kSmallClasses * kAlignment ? allocate_small(bytes) : allocate_large(bytes);
}

void* HostHeap::allocate_small(std::size_t bytes) {
  const std::size_t index = std::max<std::size_t>(round_up(bytes, kAlignment) / kAlignment, 1);
  const std::lock_guard lock(small_mutex_);
  Block*& list = small_free_[index];
  if (!list) {
    void* slab = allocate_large(kSlab - sizeof(Block));
    if (!slab) return nullptr;
    const std::size_t size = index * kAlignment + sizeof(Block);
    auto* cursor = static_cast<std::byte*>(slab);
    for (std::size_t left = (kSlab - sizeof(Block)) / size; left > 0; --left, cursor += size) {
      auto* block = reinterpret_cast<Block*>(cursor);
      *block = {.size = size, .previous_size = 0, .requested = 0, .use = Use::small, .next = list, .previous = nullptr};
      list = block;
    }
  }
  Block* block = list;
  list = block->next;
  block->requested = bytes;
  return block->data();
}

void* HostHeap::allocate_large(std::size_t bytes) {
  const std::size_t size = round_up(bytes + sizeof(Block), kAlignment);
  const std::lock_guard lock(mutex_);
  Block* block = take_fitting(size);
  if (!block) block = take_from_top(size);
  if (!block) return nullptr;
  block->use = Use::large;
  block->requested = bytes;
  used_ += block->size;
  max_used_ = std::max(max_used_, used_);
  hold_pages(block);
  return block->data();
}

void HostHeap::release(void* data) {
  Block* block = Block::of(data);
  if (block->use == Use::small) {
    const std::lock_guard lock(small_mutex_);
    Block*& list = small_free_[block->size / kAlignment - 1];
    block->next = list;
    list = block;
    return;
  }
  const std::lock_guard lock(mutex_);
  used_ -= block->size;
  if (block->previous_size != 0 && block->below()->use == Use::free) {
    Block* below = block->below();
    unlink(below);
    below->size += block->size;
    block = below;
  }
  if (block->end() == base_ + top_) {
    top_ = static_cast<std::size_t>(reinterpret_cast<std::byte*>(block) - base_);
    top_previous_ = block->previous_size;
    return;
  }
  if (Block* above = block->above(); above->use == Use::free) {
    unlink(above);
    block->size += above->size;
  }
  add_free(block);
}

/// Returns the free list for this size: the level is the power of two, the sublevel the next four bits.
HostHeap::Slot HostHeap::slot_of(std::size_t size) {
  const auto level = static_cast<std::size_t>(std::bit_width(size)) - 1;
  return {level, (size >> (level - kSublevelBits)) & (kSublevels - 1)};
}

/// Returns the best of the first blocks in the request's own list. Otherwise it takes any block of the next list, where
/// all fit.
HostHeap::Block* HostHeap::take_fitting(std::size_t size) {
  auto [level, sublevel] = slot_of(size);
  Block* best = nullptr;
  int scanned = 0;
  for (Block* block = free_[level][sublevel]; block && scanned < kScanned; block = block->next, ++scanned)
    if (block->size >= size && (!best || block->size < best->size)) best = block;
  if (!best) {
    std::uint32_t in_level = sublevels_[level] & (~std::uint32_t{1} << sublevel);
    if (in_level == 0) {
      const std::uint64_t above = levels_ & (~std::uint64_t{1} << level);
      if (above == 0) return nullptr;
      level = static_cast<std::size_t>(std::countr_zero(above));
      in_level = sublevels_[level];
    }
    best = free_[level][static_cast<std::size_t>(std::countr_zero(in_level))];
  }
  unlink(best);
  split(best, size);
  return best;
}

HostHeap::Block* HostHeap::take_from_top(std::size_t size) {
  if (size > capacity_ - top_) return nullptr;
  if (!make_accessible(top_ + size)) return nullptr;
  auto* block = reinterpret_cast<Block*>(base_ + top_);
  block->previous_size = top_previous_;
  block->size = size;
  top_ += size;
  top_previous_ = size;
  return block;
}

bool HostHeap::make_accessible(std::size_t end) {
  if (end <= accessible_) return true;
  const std::size_t target = std::min(round_up(end, kGrowth), capacity_);
  const std::size_t growth = target - accessible_;
  if (::mprotect(base_ + accessible_, growth, PROT_READ | PROT_WRITE) != 0) return false;
  ::madvise(base_ + accessible_, growth, MADV_HUGEPAGE);
  accessible_ = target;
  return true;
}

void HostHeap::split(Block* block, std::size_t size) {
  const std::size_t rest_size = block->size - size;
  if (rest_size < kMinSplit) return;
  block->size = size;
  Block* rest = block->above();
  rest->previous_size = size;
  rest->size = rest_size;
  add_free(rest);
}

/// Adds a block to its free list. The caller guarantees a used block above it: a free block at the top is merged into
/// the top.
void HostHeap::add_free(Block* block) {
  block->use = Use::free;
  block->above()->previous_size = block->size;
  const auto [level, sublevel] = slot_of(block->size);
  Block*& list = free_[level][sublevel];
  block->previous = nullptr;
  block->next = list;
  if (list) list->previous = block;
  list = block;
  levels_ |= std::uint64_t{1} << level;
  sublevels_[level] |= std::uint32_t{1} << sublevel;
}

void HostHeap::unlink(Block* block) {
  const auto [level, sublevel] = slot_of(block->size);
  if (block->next) block->next->previous = block->previous;
  if (block->previous) {
    block->previous->next = block->next;
    return;
  }
  free_[level][sublevel] = block->next;
  if (block->next) return;
  sublevels_[level] &= ~(std::uint32_t{1} << sublevel);
  if (sublevels_[level] == 0) levels_ &= ~(std::uint64_t{1} << level);
}

/// Marks the pages that the block makes resident. Held pages are limited to 1.5 times the peak use; beyond that, free
/// pages are returned first.
void HostHeap::hold_pages(const Block* block) {
  const auto offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(block) - base_);
  std::size_t num_new = 0;
  for (std::size_t page = offset / kPage; page <= (offset + block->size) / kPage; ++page) {
    if (held_[page]) continue;
    held_[page] = true;
    ++num_new;
  }
  if (num_new == 0) return;
  num_held_pages_.fetch_add(num_new, std::memory_order_relaxed);
  const std::size_t bound = std::max({kKeptAnyway, max_used_ + max_used_ / 2, trim_above_});
  if (reserved() <= bound) return;
  return_free_pages();
  trim_above_ = reserved() + max_used_ / 8;  // if pages cannot be freed, wait before the next attempt
}

void HostHeap::return_pages(std::byte* begin, std::byte* end) {
  std::size_t first = round_up(static_cast<std::size_t>(begin - base_), kPage) / kPage;
  const std::size_t last = static_cast<std::size_t>(end - base_) / kPage;
  while (first < last) {
    if (!held_[first]) {
      ++first;
      continue;
    }
    std::size_t stop = first;
    for (; stop < last && held_[stop]; ++stop) held_[stop] = false;
    ::madvise(base_ + first * kPage, (stop - first) * kPage, MADV_DONTNEED);
    num_held_pages_.fetch_sub(stop - first, std::memory_order_relaxed);
    first = stop;
  }
}

void HostHeap::return_free_pages() {
  for (std::byte* cursor = base_; cursor < base_ + top_;) {
    auto* block = reinterpret_cast<Block*>(cursor);
    if (block->use == Use::free) return_pages(cursor + sizeof(Block), block->end());
    cursor = block->end();
  }
  return_pages(base_ + top_, base_ + accessible_);
}

/// Returns the bytes of resident pages in a range.
std::size_t HostHeap::held_bytes(const std::byte* begin, const std::byte* end) const {
  std::size_t bytes = 0;
  while (begin < end) {
    const auto page = static_cast<std::size_t>(begin - base_) / kPage;
    const std::byte* next = std::min<const std::byte*>(end, base_ + (page + 1) * kPage);
    if (held_[page]) bytes += static_cast<std::size_t>(next - begin);
    begin = next;
  }
  return bytes;
}

FreeSpace HostHeap::free_space() {
  FreeSpace space{.reserved = static_cast<std::int64_t>(reserved())};
  const std::lock_guard lock(mutex_);
  for (const auto& level : free_)
    for (Block* list : level)
      for (Block* block = list; block; block = block->next)
        space.add(static_cast<std::int64_t>(held_bytes(reinterpret_cast<std::byte*>(block), block->end())));
  if (const std::size_t above = held_bytes(base_ + top_, base_ + accessible_); above > 0)
    space.add(static_cast<std::int64_t>(above));
  return space;
}

void HostHeap::release_cache() {
  const std::lock_guard lock(mutex_);
  return_free_pages();
  trim_above_ = 0;
}

}  // namespace trainctl::runtime

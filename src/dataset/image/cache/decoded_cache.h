// Decoded images kept in memory from epoch to epoch, up to a budget, for one process or all ranks of a node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dataset/config.h"
#include "dataset/image/codec/decode.h"

namespace trainctl::dataset {

/// The whole image at one scale, as the decoder made it: any crop of it gives what decoding that crop gives.
struct CachedImage {
  ImageSize size;  // of the image at its full size
  ImageFormat format = ImageFormat::jpeg;
  int eighths = 8;  // of that size
  std::int64_t label = 0;
  ImageView pixels;
};

/// Images are admitted until the budget is full, and stay. Every sample comes once an epoch, so whatever was used last
/// is needed latest: LRU would drop each image shortly before its turn. Lock-free: an image is written first and then
/// published by one word, so a process that is killed leaves nothing half there, and nobody waiting.
class DecodedCache {
 public:
  virtual ~DecodedCache() = default;
  /// The image of a sample at a scale; at any where `eighths` is 0. Its pixels stay as long as the cache.
  virtual std::optional<CachedImage> find(std::uint64_t sample, int eighths) const = 0;
  /// Whether an image of this size would be admitted.
  virtual bool has_room(std::int64_t pixel_bytes) const = 0;
  virtual void admit(std::uint64_t sample, const CachedImage& image) = 0;
  virtual std::int64_t bytes_used() const = 0;
};

std::shared_ptr<DecodedCache> make_decoded_cache(std::size_t budget_bytes);

/// One for all processes of the node that ask for the same `key` and budget; see SharedMemory.
struct SharedCacheOptions {
  std::string key;
  std::size_t budget_bytes = 0;
  std::size_t participants = 1;
  std::string directory = "/dev/shm";
};
std::shared_ptr<DecodedCache> make_shared_cache(const SharedCacheOptions& options);

/// The samples of one set in a cache, and how often they were there.
class CachedSamples {
 public:
  /// Sets that share a cache have different numbers, below 2.
  CachedSamples(std::shared_ptr<DecodedCache> cache, std::uint64_t set) : cache_(std::move(cache)), set_(set) {}

  std::optional<CachedImage> find(std::int64_t index, int eighths) const { return cache_->find(key(index), eighths); }
  bool has_room(std::int64_t pixel_bytes) const { return cache_->has_room(pixel_bytes); }
  void admit(std::int64_t index, const CachedImage& image) { cache_->admit(key(index), image); }
  void count_hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  void count_miss() { misses_.fetch_add(1, std::memory_order_relaxed); }
  std::int64_t take_hits() { return hits_.exchange(0); }
  std::int64_t take_misses() { return misses_.exchange(0); }
  std::int64_t bytes_used() const { return cache_->bytes_used(); }

 private:
  std::uint64_t key(std::int64_t index) const { return 2 * static_cast<std::uint64_t>(index) + set_; }

  std::shared_ptr<DecodedCache> cache_;
  std::uint64_t set_;
  std::atomic<std::int64_t> hits_{0};
  std::atomic<std::int64_t> misses_{0};
};

}  // namespace trainctl::dataset

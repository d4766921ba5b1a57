// A table of words, each naming the place of an image (0: none yet), and behind it the images one after another. Places
// are handed out by adding to a counter; a place whose process was killed before its word was written stays unused.
#include "dataset/image/cache/decoded_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "dataset/image/cache/shared_memory.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kUnit = 64;            // places are multiples of it
constexpr std::size_t kBytesForSlot = 2048;  // the table has a word for each so many bytes of the budget
constexpr std::size_t kMostProbes = 64;      // words that are looked at for one sample
constexpr int kPlaceBits = 40;               // of a word; the others are of the sample's hash
constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free);

/// The header in front of an image's pixels.
struct Entry {
  std::uint64_t sample;
  std::int64_t label;
  std::uint32_t full_height;
  std::uint32_t full_width;
  std::uint32_t height;
  std::uint32_t width;
  std::uint32_t channels;
  std::uint16_t format;
  std::uint16_t eighths;
};
static_assert(sizeof(Entry) <= kUnit);

/// The memory of the cached pixels.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  /// Reserves bytes; false if the machine has no more memory.
  virtual bool reserve(std::size_t offset, std::size_t bytes) const = 0;
};

class OwnMemory final : public Memory {
 public:
  explicit OwnMemory(std::size_t size) : size_(size) {
    void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
      throw core::Error("cannot get " + std::to_string(size >> 20) + " MiB of memory for dataset.image_cache.size_mib")
          .hint("set it lower");
    data_ = static_cast<std::byte*>(mapped);
  }
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() override { ::munmap(data_, size_); }
  std::byte* data() const override { return data_; }
  bool reserve(std::size_t, std::size_t) const override { return true; }

 private:
  std::size_t size_;
  std::byte* data_ = nullptr;
};

class NodeMemory final : public Memory {
 public:
  explicit NodeMemory(const SharedMemory::Options& options) : memory_(options) {}
  std::byte* data() const override { return memory_.data(); }
  bool reserve(std::size_t offset, std::size_t bytes) const override { return memory_.reserve(offset, bytes); }

 private:
  SharedMemory memory_;
};

struct CacheLayout {
  std::size_t slots;
  std::size_t begin;  // of the images
  std::size_t end;

  explicit CacheLayout(std::size_t budget)
      : slots(std::bit_ceil(std::max<std::size_t>(budget / kBytesForSlot, 2 * kMostProbes))),
        begin(kUnit + slots * sizeof(Word)),
        end(begin + budget) {}
};

class Cache final : public DecodedCache {
 public:
  Cache(std::unique_ptr<Memory> memory, const CacheLayout& layout)
      : memory_(std::move(memory)), layout_(layout), is_usable_(memory_->reserve(0, layout.begin)) {}

  std::optional<CachedImage> find(std::uint64_t sample, int eighths) const override {
    if (!is_usable_) return std::nullopt;
    for (std::size_t i = 0; i < kMostProbes; ++i) {
      const std::uint64_t word = slot(sample, i).load(std::memory_order_acquire);
      if (word == 0) return std::nullopt;
      if ((word ^ tag(sample)) >> kPlaceBits != 0) continue;
      if (auto image = image_at(word & kPlaceMask, sample); image && (eighths == 0 || image->eighths == eighths))
        return image;
    }
    return std::nullopt;
  }

  bool has_room(std::int64_t pixel_bytes) const override {
    return is_usable_ && used().load(std::memory_order_relaxed) + bytes_for(pixel_bytes) <= layout_.end - layout_.begin;
  }

  void admit(std::uint64_t sample, const CachedImage& image) override {
    if (find(sample, image.eighths)) return;
    const std::int64_t pixel_bytes = image.pixels.height * image.pixels.row_bytes();
    const std::optional<std::size_t> place = take(bytes_for(pixel_bytes));
    if (!place) return;
    const Entry entry{.sample = sample,
                      .label = image.label,
                      .full_height = static_cast<std::uint32_t>(image.size.height),
                      .full_width = static_cast<std::uint32_t>(image.size.width),
                      .height = static_cast<std::uint32_t>(image.pixels.height),
                      .width = static_cast<std::uint32_t>(image.pixels.width),
                      .channels = static_cast<std::uint32_t>(image.pixels.channels),
                      .format = static_cast<std::uint16_t>(image.format),
                      .eighths = static_cast<std::uint16_t>(image.eighths)};
    std::memcpy(memory_->data() + *place, &entry, sizeof(entry));
    std::memcpy(memory_->data() + *place + kUnit, image.pixels.bytes, static_cast<std::size_t>(pixel_bytes));
    publish(sample, image.eighths, *place);
  }

  std::int64_t bytes_used() const override {
    if (!is_usable_) return 0;
    return static_cast<std::int64_t>(std::min(used().load(std::memory_order_relaxed), layout_.end - layout_.begin));
  }

 private:
  static std::size_t bytes_for(std::int64_t pixel_bytes) {
    return kUnit + (static_cast<std::size_t>(pixel_bytes) + kUnit - 1) / kUnit * kUnit;
  }
  static std::uint64_t tag(std::uint64_t sample) { return runtime::mix(sample) & ~kPlaceMask; }

  Word& used() const { return *reinterpret_cast<Word*>(memory_->data()); }
  Word& slot(std::uint64_t sample, std::size_t probe) const {
    const std::size_t at = (runtime::mix(sample) + probe) & (layout_.slots - 1);
    return reinterpret_cast<Word*>(memory_->data() + kUnit)[at];
  }

  /// Takes a place for `bytes`; none if the budget or the machine's memory is used up.
  std::optional<std::size_t> take(std::size_t bytes) {
    if (!is_usable_) return std::nullopt;
    const std::size_t budget = layout_.end - layout_.begin;
    std::uint64_t before = used().load(std::memory_order_relaxed);
    do {
      if (before + bytes > budget) return std::nullopt;
    } while (!used().compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
    const std::size_t place = layout_.begin + before;
    if (memory_->reserve(place, bytes)) return place;
    used().store(budget, std::memory_order_relaxed);  // for everyone
    return std::nullopt;
  }

  void publish(std::uint64_t sample, int eighths, std::size_t place) {
    for (std::size_t i = 0; i < kMostProbes; ++i) {
      std::uint64_t there = 0;
      if (slot(sample, i).compare_exchange_strong(there, tag(sample) | place / kUnit, std::memory_order_release,
                                                  std::memory_order_acquire))
        return;
      if ((there ^ tag(sample)) >> kPlaceBits != 0) continue;
      if (const auto other = image_at(there & kPlaceMask, sample); other && other->eighths == eighths) return;
    }
  }

  /// Returns the image at `unit` if it is that sample's. Other processes wrote the entry, so all of its fields are
  /// checked.
  std::optional<CachedImage> image_at(std::uint64_t unit, std::uint64_t sample) const {
    const std::size_t place = static_cast<std::size_t>(unit) * kUnit;
    if (place < layout_.begin || place + kUnit > layout_.end) return std::nullopt;
    Entry entry;
    std::memcpy(&entry, memory_->data() + place, sizeof(entry));
    if (entry.sample != sample) return std::nullopt;
    const auto rows = static_cast<std::uint64_t>(entry.height);
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(entry.width) * entry.channels;
    if (row_bytes == 0 || rows > (layout_.end - place - kUnit) / row_bytes) return std::nullopt;
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(memory_->data() + place + kUnit);
    return CachedImage{.size = {entry.full_height, entry.full_width},
                       .format = static_cast<ImageFormat>(entry.format),
                       .eighths = entry.eighths,
                       .label = entry.label,
                       .pixels = {entry.height, entry.width, entry.channels, pixels}};
  }

  std::unique_ptr<Memory> memory_;
  CacheLayout layout_;
  bool is_usable_;
};

}  // namespace

std::shared_ptr<DecodedCache> make_decoded_cache(std::size_t budget_bytes) {
  const CacheLayout layout(budget_bytes);
  return std::make_shared<Cache>(std::make_unique<OwnMemory>(layout.end), layout);
}

std::shared_ptr<DecodedCache> make_shared_cache(const SharedCacheOptions& options) {
  const CacheLayout layout(options.budget_bytes);
  return std::make_shared<Cache>(
      std::make_unique<NodeMemory>(SharedMemory::Options{.name = options.key,
                                                         .bytes = layout.end,
                                                         .participants = options.participants,
                                                         .directory = options.directory}),
      layout);
}

}  // namespace trainctl::dataset

// Values of a table that may be larger than the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace trainctl::dataset {

/// Bytes that are appended, then read. The first ones are held in memory. If there are more, all of them lie in a file
/// without a name, below TMPDIR or /var/tmp. The kernel keeps the pages of the file in memory that there is room for.
class SpillingBytes {
 public:
  /// Bytes up to which nothing is written to the file.
  static constexpr std::size_t kMostInMemory = std::size_t{64} << 20;

  explicit SpillingBytes(std::size_t most_in_memory = kMostInMemory) : most_in_memory_(most_in_memory) {}
  SpillingBytes(SpillingBytes&& other) noexcept;
  SpillingBytes& operator=(SpillingBytes&& other) noexcept;
  ~SpillingBytes();

  /// Throws core::Error if the file can't be written.
  void append(std::span<const std::byte> bytes);
  /// Makes all bytes readable. Nothing may be appended afterwards.
  void finish();
  /// Tells the kernel that reads will jump about, so that it reads no more of the file than is asked for.
  void expect_random_reads() const;
  std::size_t size() const { return size_; }
  bool is_in_memory() const { return descriptor_ < 0; }
  /// The bytes, once finish() was called, or as long as they are in memory.
  const std::byte* data() const { return mapped_ != nullptr ? mapped_ : memory_.data(); }

 private:
  void write_memory();

  std::size_t most_in_memory_;
  std::vector<std::byte> memory_{};  // all bytes, or those that the file doesn't have yet
  std::size_t size_ = 0;
  int descriptor_ = -1;  // of the file
  const std::byte* mapped_ = nullptr;
};

/// A vector of plain values over SpillingBytes.
template <class T>
requires std::is_trivially_copyable_v<T>
class SpillingVector {
 public:
  void push_back(T value) { bytes_.append(std::as_bytes(std::span(&value, 1))); }
  void finish() { bytes_.finish(); }
  void expect_random_reads() const { bytes_.expect_random_reads(); }
  std::size_t size() const { return bytes_.size() / sizeof(T); }
  bool empty() const { return size() == 0; }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data()); }
  const T& operator[](std::size_t index) const { return data()[index]; }

 private:
  SpillingBytes bytes_;
};

}  // namespace trainctl::dataset

// The order of an epoch as a function: no list of indices, so O(1) memory, O(1) seek and the same order for any worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace trainctl::dataset {

/// A pseudo-random permutation of [0, size), named by (seed, epoch). It is a Feistel network over a power of two,
/// repeated until the value is in range. Source: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
/// 2002.
class Order {
 public:
  /// In order: position i is index i.
  explicit Order(std::int64_t size);
  Order(std::uint64_t seed, std::int64_t epoch, std::int64_t size);

  std::int64_t size() const { return size_; }
  /// The index at `position`, both in [0, size).
  std::int64_t operator()(std::int64_t position) const;

 private:
  static constexpr int kRounds = 6;
  std::uint64_t permute(std::uint64_t value) const;

  std::int64_t size_;
  bool shuffled_ = false;
  int low_bits_ = 0;   // of the half that the first round mixes in
  int high_bits_ = 0;  // of the half that the first round changes
  std::array<std::uint64_t, kRounds> keys_{};
};

/// Which sample, and in which epoch: all that its content depends on. Where a source is gone through more than once in
/// an epoch of a mixture, `epoch` counts its own rounds.
struct SampleKey {
  std::int64_t epoch = 0;
  std::int64_t index = 0;
  bool operator==(const SampleKey&) const = default;
};

enum class Shuffling { each_epoch, none };

/// What comes at each position of one epoch. Pure, so any thread may ask for any position.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;
  virtual SampleKey at(std::int64_t position) const = 0;
};

/// What comes when: one function of (epoch, position), whoever asks.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Positions in an epoch.
  virtual std::int64_t size() const = 0;
  virtual std::shared_ptr<const EpochOrder> epoch(std::int64_t epoch) const = 0;
};

/// All of [0, size) each epoch, in their order or shuffled as a whole.
std::unique_ptr<Sampler> make_uniform_order(std::int64_t size, Shuffling shuffling, std::uint64_t seed);

/// Draws a class evenly, then one of its samples evenly, with replacement; an epoch has as many positions as there are
/// labels. PyTorch's WeightedRandomSampler draws so if a sample's weight is 1 / count of its class. Classes without
/// samples are never drawn.
std::unique_ptr<Sampler> make_balanced_order(const std::vector<std::int64_t>& labels, std::uint64_t seed);

}  // namespace trainctl::dataset

#include "dataset/sampler/sampler.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

// A smaller network has too few permutations to reach all orders of a small set equally often.
constexpr int kLeastBits = 8;

class UniformEpoch final : public EpochOrder {
 public:
  UniformEpoch(Order order, std::int64_t epoch) : order_(order), epoch_(epoch) {}
  SampleKey at(std::int64_t position) const override { return {.epoch = epoch_, .index = order_(position)}; }

 private:
  Order order_;
  std::int64_t epoch_;
};

class UniformOrder final : public Sampler {
 public:
  UniformOrder(std::int64_t size, Shuffling shuffling, std::uint64_t seed)
      : size_(size), shuffling_(shuffling), seed_(seed) {}
  std::int64_t size() const override { return size_; }
  std::shared_ptr<const EpochOrder> epoch(std::int64_t epoch) const override {
    return std::make_shared<UniformEpoch>(shuffling_ == Shuffling::none ? Order(size_) : Order(seed_, epoch, size_),
                                          epoch);
  }

 private:
  std::int64_t size_;
  Shuffling shuffling_;
  std::uint64_t seed_;
};

/// The samples of each class that has any.
using SamplesByClass = std::vector<std::vector<std::int64_t>>;

class BalancedEpoch final : public EpochOrder {
 public:
  BalancedEpoch(std::shared_ptr<const SamplesByClass> classes, std::int64_t size, std::uint64_t seed,
                std::int64_t epoch)
      : classes_(std::move(classes)),
        size_(size),
        seed_(runtime::mix(seed, runtime::key_of("balanced"), static_cast<std::uint64_t>(epoch))),
        epoch_(epoch) {}

  /// A sample that is drawn again in an epoch has another key, so that its augmentation differs.
  SampleKey at(std::int64_t position) const override {
    runtime::Random random(runtime::mix(seed_, static_cast<std::uint64_t>(position)));
    const std::vector<std::int64_t>& samples =
        (*classes_)[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(classes_->size())))];
    return {.epoch = epoch_ * size_ + position,
            .index = samples[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(samples.size())))]};
  }

 private:
  std::shared_ptr<const SamplesByClass> classes_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::int64_t epoch_;
};

class BalancedOrder final : public Sampler {
 public:
  BalancedOrder(const std::vector<std::int64_t>& labels, std::uint64_t seed)
      : size_(static_cast<std::int64_t>(labels.size())), seed_(seed) {
    auto classes = std::make_shared<SamplesByClass>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto label = static_cast<std::size_t>(labels[i]);
      if (classes->size() <= label) classes->resize(label + 1);
      (*classes)[label].push_back(static_cast<std::int64_t>(i));
    }
    std::erase_if(*classes, [](const std::vector<std::int64_t>& samples) { return samples.empty(); });
    classes_ = std::move(classes);
  }
  std::int64_t size() const override { return size_; }
  std::shared_ptr<const EpochOrder> epoch(std::int64_t epoch) const override {
    return std::make_shared<BalancedEpoch>(classes_, size_, seed_, epoch);
  }

 private:
  std::int64_t size_;
  std::uint64_t seed_;
  std::shared_ptr<const SamplesByClass> classes_;
};

}  // namespace

Order::Order(std::int64_t size) : size_(size) {
  core::ensure(size >= 0, "an order has a size");
}

Order::Order(std::uint64_t seed, std::int64_t epoch, std::int64_t size) : Order(size) {
  shuffled_ = size > 1;
  const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1) - 1);
  const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(last)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  runtime::Random keys(runtime::mix(seed, runtime::key_of("order"), static_cast<std::uint64_t>(epoch)));
  for (std::uint64_t& key : keys_) key = keys.next();
}

std::int64_t Order::operator()(std::int64_t position) const {
  if (!shuffled_) return position;
  auto value = static_cast<std::uint64_t>(position);
  do value = permute(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

std::uint64_t Order::permute(std::uint64_t value) const {
  int low_bits = low_bits_;
  int high_bits = high_bits_;
  for (const std::uint64_t key : keys_) {
    const std::uint64_t low = value & ((std::uint64_t{1} << low_bits) - 1);
    const std::uint64_t high = (value >> low_bits) ^ (runtime::mix(low ^ key) & ((std::uint64_t{1} << high_bits) - 1));
    value = low << high_bits | high;  // the halves change places
    std::swap(low_bits, high_bits);
  }
  return value;
}

std::unique_ptr<Sampler> make_balanced_order(const std::vector<std::int64_t>& labels, std::uint64_t seed) {
  return std::make_unique<BalancedOrder>(labels, seed);
}

std::unique_ptr<Sampler> make_uniform_order(std::int64_t size, Shuffling shuffling, std::uint64_t seed) {
  return std::make_unique<UniformOrder>(size, shuffling, seed);
}

}  // namespace trainctl::dataset

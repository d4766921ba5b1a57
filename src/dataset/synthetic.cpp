// Data made up from the sample's index: for tests and benchmarks, yet a model can learn it.
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "core/file.h"
#include "dataset/collate/sample_writer.h"
#include "dataset/image/in_memory.h"
#include "dataset/sources.h"
#include "runtime/random.h"

namespace trainctl::dataset {
namespace {

enum class SyntheticPart { training, evaluation };

std::uint64_t stream_of(SyntheticPart part) {
  return runtime::key_of(part == SyntheticPart::training ? "synthetic train" : "synthetic eval");
}

/// Images whose classes are grids of 8×8 grey (or coloured) cells; a sample is its class's grid under noise.
class SyntheticImages final : public RawSource {
 public:
  SyntheticImages(const SyntheticImagesConfig& config, SyntheticPart part)
      : shape_{.height = config.height, .width = config.width, .channels = config.channels},
        size_(part == SyntheticPart::training ? config.num_samples : config.num_eval_samples),
        key_(stream_of(part)),
        spec_{.input_shape = {config.channels, config.height, config.width},
              .input_dtype = at::kFloat,
              .num_classes = config.num_classes} {}

  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override { return shape_.bytes(); }

  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    const std::int64_t label = index % spec_.num_classes;
    draw_pattern(label, sample);
    add_noise(index, sample);
    return label;
  }

  std::string fingerprint() const override {
    return core::checksum("synthetic images " + std::to_string(size_) + " " + describe(shape_) + " " +
                          std::to_string(spec_.num_classes));
  }

 private:
  static constexpr std::int64_t kCells = 8;
  static constexpr std::uint64_t kNoiseMask = 0x3f3f3f3f3f3f3f3fULL;  // 0 to 63 on each byte
  static constexpr std::int64_t kBrightest = 255 - 0x3f;

  void draw_pattern(std::int64_t label, std::byte* pixels) const {
    const std::uint64_t pattern = runtime::mix(runtime::key_of("synthetic pattern"), static_cast<std::uint64_t>(label));
    std::int64_t drawn_cell = -1;
    for (std::int64_t y = 0; y < shape_.height; ++y) {
      std::byte* row = pixels + y * shape_.row_bytes();
      const std::int64_t cell = y * kCells / shape_.height;
      if (cell == drawn_cell)
        std::memcpy(row, row - shape_.row_bytes(), static_cast<std::size_t>(shape_.row_bytes()));
      else
        draw_row(runtime::mix(pattern, static_cast<std::uint64_t>(cell)), row);
      drawn_cell = cell;
    }
  }

  void draw_row(std::uint64_t key, std::byte* row) const {
    std::int64_t drawn_cell = -1;
    for (std::int64_t x = 0; x < shape_.width; ++x, row += shape_.channels) {
      const std::int64_t cell = x * kCells / shape_.width;
      if (cell == drawn_cell) {
        std::memcpy(row, row - shape_.channels, static_cast<std::size_t>(shape_.channels));
        continue;
      }
      drawn_cell = cell;
      runtime::Random random(runtime::mix(key, static_cast<std::uint64_t>(cell)));
      for (std::int64_t c = 0; c < shape_.channels; ++c) row[c] = static_cast<std::byte>(random.below(kBrightest + 1));
    }
  }

  /// Adds noise to eight pixels at a time: pattern and noise never carry into the next byte.
  void add_noise(std::int64_t index, std::byte* pixels) const {
    runtime::Random random(runtime::mix(key_, static_cast<std::uint64_t>(index)));
    auto left = static_cast<std::size_t>(shape_.bytes());
    while (left > 0) {
      const std::size_t now = std::min<std::size_t>(left, 8);
      std::uint64_t word = 0;
      std::memcpy(&word, pixels, now);
      word += little_endian(random.next() & kNoiseMask);
      std::memcpy(pixels, &word, now);
      pixels += now;
      left -= now;
    }
  }

  /// Swaps bytes on a big-endian machine, so that all machines make the same images.
  static std::uint64_t little_endian(std::uint64_t word) {
    return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
  }

  ImageShape shape_;
  std::int64_t size_;
  std::uint64_t key_;
  SampleSpec spec_;
};

/// Texts in which nine of ten tokens follow from the one before by a fixed rule; the tenth is random.
class SyntheticTokens final : public RawSource {
 public:
  SyntheticTokens(const SyntheticTokensConfig& config, SyntheticPart part)
      : size_(part == SyntheticPart::training ? config.num_samples : config.num_eval_samples),
        key_(stream_of(part)),
        mask_probability_(config.mask_probability),
        spec_{.input_shape = {config.seq_len},
              .input_dtype = at::kLong,
              .vocab_size = config.vocab_size,
              .targets = config.mask_probability > 0 ? Targets::masked_tokens : Targets::next_tokens} {}

  std::int64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t sample_bytes() const override {
    return (spec_.input_shape[0] + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
  }

  std::int64_t get(std::int64_t index, std::byte* sample) const override {
    runtime::Random random(runtime::mix(key_, static_cast<std::uint64_t>(index)));
    std::int64_t token = random.below(spec_.vocab_size);
    for (std::int64_t t = 0; t <= spec_.input_shape[0]; ++t) {
      std::memcpy(sample + t * static_cast<std::int64_t>(sizeof token), &token, sizeof token);
      token = random.below(10) == 0 ? random.below(spec_.vocab_size) : follower(token);
    }
    return 0;
  }

  std::unique_ptr<SampleWriter> make_writer(Phase phase, std::uint64_t seed) const override {
    return mask_probability_ > 0 ? make_masked_token_writer(*this, mask_probability_, phase, seed) : nullptr;
  }

  std::string fingerprint() const override {
    return core::checksum("synthetic tokens " + std::to_string(size_) + " " + std::to_string(spec_.input_shape[0]) +
                          " " + std::to_string(spec_.vocab_size));
  }

 private:
  std::int64_t follower(std::int64_t token) const {
    return runtime::Random(runtime::mix(runtime::key_of("synthetic follower"), static_cast<std::uint64_t>(token)))
        .below(spec_.vocab_size);
  }

  std::int64_t size_;
  std::uint64_t key_;
  double mask_probability_;
  SampleSpec spec_;
};

template <class SourceType, class Config>
Sources build_both(const Config& config) {
  Sources sources{.train = std::make_unique<SourceType>(config, SyntheticPart::training)};
  if (config.num_eval_samples > 0) sources.eval = std::make_unique<SourceType>(config, SyntheticPart::evaluation);
  return sources;
}

}  // namespace

Sources build(const SyntheticImagesConfig& config) {
  return build_both<SyntheticImages>(config);
}
Sources build(const SyntheticTokensConfig& config) {
  return build_both<SyntheticTokens>(config);
}

}  // namespace trainctl::dataset

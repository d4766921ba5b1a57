// CIFAR's binary version: records of one (CIFAR-10) or two (CIFAR-100: coarse, fine) label bytes and 3×32×32 bytes.
#include <array>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "dataset/image/in_memory.h"
#include "dataset/sources.h"

namespace trainctl::dataset {
namespace {

constexpr ImageShape kShape{.height = 32, .width = 32, .channels = 3};
constexpr std::size_t kPlane = 32 * 32;
constexpr std::size_t kPixels = 3 * kPlane;

struct Layout {
  std::size_t label_bytes;
  std::size_t label_at;  // which of them counts
  std::uint8_t num_classes;
};

/// Turns planes [C, H, W] into pixels [H, W, C].
void interleave(const char* planes, std::byte* pixels) {
  for (std::size_t i = 0; i < kPlane; ++i)
    for (std::size_t c = 0; c < 3; ++c) pixels[3 * i + c] = static_cast<std::byte>(planes[c * kPlane + i]);
}

void append(ImageSet& set, const std::filesystem::path& path, const Layout& layout) {
  const std::string bytes = core::read_file(path);
  const std::size_t record = layout.label_bytes + kPixels;
  if (bytes.empty()) throw core::Error(path.string() + " is empty");
  if (bytes.size() % record != 0)
    throw core::Error(path.string() + " has " + std::to_string(bytes.size()) +
                      " bytes, which is no multiple of the record's " + std::to_string(record) +
                      ": the last record, at byte " + std::to_string(bytes.size() / record * record) + ", is cut short")
        .hint("the file is damaged, or not the binary version of CIFAR; get it again");
  const std::size_t count = bytes.size() / record;
  const std::size_t before = set.labels.size();
  set.labels.reserve(before + count);
  set.pixels.resize((before + count) * kPixels);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t label_offset = i * record + layout.label_at;
    const auto label = static_cast<std::uint8_t>(bytes[label_offset]);
    if (label >= layout.num_classes)
      throw core::Error(path.string() + ": label " + std::to_string(label) + " of record " + std::to_string(i) +
                        ", at byte " + std::to_string(label_offset) + ", is not below " +
                        std::to_string(layout.num_classes));
    set.labels.push_back(label);
    interleave(bytes.data() + i * record + layout.label_bytes, set.pixels.data() + (before + i) * kPixels);
  }
}

template <std::size_t N>
ImageSet read_files(const std::string& directory, const std::array<const char*, N>& names, const Layout& layout) {
  ImageSet set{.shape = kShape, .pixels = {}, .labels = {}, .num_classes = layout.num_classes};
  for (const char* name : names) append(set, std::filesystem::path(directory) / name, layout);
  return set;
}

/// Returns the sets. The published test images are the test set if others are for evaluation.
template <class Config>
Sources sources_of(const Config& config, ImageSet train, ImageSet published_test, const LoaderOptions& options) {
  Sources sources = divided_sources(std::move(train), {.eval_fraction = config.eval_fraction,
                                                       .seed = static_cast<std::uint64_t>(config.split_seed),
                                                       .fold = options.fold});
  (sources.eval ? sources.test : sources.eval) = make_source(std::move(published_test));
  return sources;
}

}  // namespace

Sources build(const Cifar10Config& config, const LoaderOptions& options) {
  constexpr Layout layout{.label_bytes = 1, .label_at = 0, .num_classes = 10};
  constexpr std::array train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                                "data_batch_5.bin"};
  return sources_of(config, read_files(config.path, train, layout),
                    read_files(config.path, std::array{"test_batch.bin"}, layout), options);
}

Sources build(const Cifar100Config& config, const LoaderOptions& options) {
  const Layout layout = config.coarse_labels ? Layout{.label_bytes = 2, .label_at = 0, .num_classes = 20}
                                             : Layout{.label_bytes = 2, .label_at = 1, .num_classes = 100};
  return sources_of(config, read_files(config.path, std::array{"train.bin"}, layout),
                    read_files(config.path, std::array{"test.bin"}, layout), options);
}

}  // namespace trainctl::dataset

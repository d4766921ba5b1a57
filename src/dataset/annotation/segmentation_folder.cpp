// Two directories with equal names: images/a/1.jpg, and masks/a/1.png with the class of each pixel.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "dataset/files/directory_walk.h"
#include "dataset/image/codec/encoded_source.h"
#include "dataset/image/folder/folder_change_detector.h"
#include "dataset/image/folder/image_file.h"
#include "dataset/sampler/split.h"
#include "dataset/sources.h"

namespace trainctl::dataset {
namespace {

namespace fs = std::filesystem;

/// Images below a directory that have a mask.
struct MaskedFiles {
  fs::path images;
  fs::path masks;
  std::vector<std::string> files;  // below `images`, sorted
  std::string fingerprint;

  std::string image(std::int64_t file) const { return (images / files[static_cast<std::size_t>(file)]).string(); }
  std::string mask(std::int64_t file) const {
    return (masks / files[static_cast<std::size_t>(file)]).replace_extension(".png").string();
  }
};

/// Lists images.
std::vector<std::string> images_below(const std::string& directory, const std::vector<std::string>& endings) {
  std::vector<std::string> files;
  for (const fs::path& file : files_below(directory, endings))
    files.push_back(file.lexically_relative(directory).string());
  if (files.empty()) throw core::Error("no images (" + core::list_words(endings, "or") + ") in " + directory);
  std::sort(files.begin(), files.end());
  return files;
}

std::shared_ptr<const MaskedFiles> find_pairs(const ImagesWithMasks& directories,
                                              const std::vector<std::string>& endings) {
  auto found = std::make_shared<MaskedFiles>();
  found->images = directories.images;
  found->masks = directories.masks;
  found->files = images_below(directories.images, endings);
  core::Checksum sum;
  const auto add = [&](const std::string& text) { sum.update(std::as_bytes(std::span(text))); };
  for (std::int64_t file = 0; file < std::ssize(found->files); ++file) {
    std::error_code ignored;
    if (!fs::is_regular_file(found->mask(file), ignored))
      throw core::Error("there is no mask " + found->mask(file) + " of the image " + found->image(file))
          .hint("a mask is a PNG file at the path of its image, below the directory of masks");
    add(found->files[static_cast<std::size_t>(file)] + '\n');
  }
  const std::int64_t count = std::ssize(found->files);
  add(watch_files(count, [&](std::int64_t file) { return fs::path(found->image(file)); }).content);
  add(watch_files(count, [&](std::int64_t file) { return fs::path(found->mask(file)); }).content);
  found->fingerprint = sum.digest();
  return found;
}

class SegmentationFolder final : public EncodedImageSource {
 public:
  /// `images`: numbers of files, rising.
  SegmentationFolder(std::shared_ptr<const MaskedFiles> files, std::vector<std::int64_t> images,
                     const SegmentationFolderConfig& config)
      : files_(std::move(files)), images_(std::move(images)), ignored_(config.ignore_index) {
    spec_.input_shape = {3, 0, 0};
    spec_.num_classes = std::ssize(config.class_names);
    spec_.targets = Targets::class_masks;
    spec_.class_names = config.class_names;
  }

  std::int64_t size() const override { return std::ssize(images_); }
  const SampleSpec& spec() const override { return spec_; }

  EncodedSample read(std::int64_t index, std::vector<std::byte>& buffer, std::string& name) const override {
    name = files_->image(image_of(index));
    const std::size_t size = read_image_file(name, buffer);
    return {.image = {.bytes = std::span(buffer).first(size), .name = name}};
  }

  ClassMask class_mask(std::int64_t index, ImageSize image, std::vector<std::byte>& buffer) const override {
    const std::string name = files_->mask(image_of(index));
    const std::size_t size = read_image_file(name, buffer);
    ClassMask mask = decode_class_mask({.bytes = std::span(buffer).first(size), .name = name});
    if (image != ImageSize{mask.height, mask.width})
      throw BadSample(name + ": the mask has " + text_of({mask.height, mask.width}) + " pixels, and its image " +
                      text_of(image) + "; expected equal sizes");
    for (std::size_t i = 0; i < mask.classes.size(); ++i) mask.classes[i] = class_of(mask, i);
    return mask;
  }
  void will_need(std::int64_t index) const override {
    expect_image_file(files_->image(image_of(index)));
    expect_image_file(files_->mask(image_of(index)));
  }
  std::string fingerprint() const override {
    return core::checksum(files_->fingerprint + core::checksum(std::as_bytes(std::span(images_))) + ' ' +
                          std::to_string(ignored_));
  }

 private:
  static std::string text_of(ImageSize size) { return std::to_string(size.width) + "×" + std::to_string(size.height); }
  std::int64_t image_of(std::int64_t index) const { return images_[static_cast<std::size_t>(index)]; }

  std::uint8_t class_of(const ClassMask& mask, std::size_t pixel) const {
    const std::uint8_t number = mask.classes[pixel];
    if (number == ignored_) return ClassMask::kNoClass;
    if (number < spec_.num_classes) return number;
    const auto place = static_cast<std::int64_t>(pixel);
    BadSample error(mask.name + ": the pixel in row " + std::to_string(place / mask.width) + ", column " +
                    std::to_string(place % mask.width) + " has class " + std::to_string(number) +
                    "; expected a number below " + std::to_string(spec_.num_classes) + ", or " +
                    std::to_string(ignored_) + " for no class");
    error.hint("dataset.class_names lists the classes, dataset.ignore_index is the number of pixels without one");
    throw error;
  }

  std::shared_ptr<const MaskedFiles> files_;
  std::vector<std::int64_t> images_;
  std::int64_t ignored_;
  SampleSpec spec_;
};

}  // namespace

Sources build(const SegmentationFolderConfig& config, const LoaderOptions& options) {
  const auto make = [&](const std::shared_ptr<const MaskedFiles>& files, std::vector<std::int64_t> images) {
    return images.empty() ? nullptr : std::make_unique<SegmentationFolder>(files, std::move(images), config);
  };
  const auto whole = [&](const std::shared_ptr<const MaskedFiles>& files) {
    std::vector<std::int64_t> images(files->files.size());
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::int64_t>(i);
    return make(files, std::move(images));
  };
  const std::shared_ptr<const MaskedFiles> files = find_pairs(config.train, config.extensions);
  const Split split{.eval_fraction = config.eval_fraction,
                    .test_fraction = config.test_fraction,
                    .seed = static_cast<std::uint64_t>(config.split_seed),
                    .fold = options.fold};
  Sources sources;
  if (split.divides()) {
    std::vector<std::uint64_t> hashes;
    for (const std::string& file : files->files) hashes.push_back(key_hash(file));
    const DividedSamples parts = divide(hashes, {}, split, "image");
    sources = {.train = make(files, parts.train), .eval = make(files, parts.eval), .test = make(files, parts.test)};
  } else {
    sources.train = whole(files);
  }
  if (config.eval) sources.eval = whole(find_pairs(*config.eval, config.extensions));
  if (config.test && options.evaluated == EvaluatedSet::test)
    sources.test = whole(find_pairs(*config.test, config.extensions));
  return sources;
}

}  // namespace trainctl::dataset

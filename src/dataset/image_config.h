// Images as files, and what is done to images on their way into a batch. Definitions are torchvision's
// (torchvision.transforms.v2), under its names; what is random comes from the sample, its epoch and the seed alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "dataset/facts.h"
#include "dataset/image_labels_config.h"
#include "dataset/plugged_transform.h"

namespace trainctl::dataset {

/// Source of an image's class. top_folder: the folder of the directory that the image is below. full_path: the path of
/// the image's own folder.
enum class ClassFrom { top_folder, full_path };

/// torchvision.datasets.ImageFolder: DIRECTORY/class/…/image.jpg.
struct ImageFolderConfig {
  static constexpr std::string_view kind = "image_folder";
  std::string train;
  std::optional<std::string> eval;
  std::optional<std::string> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  ClassFrom class_from = ClassFrom::top_folder;
  std::vector<std::string> extensions = {"jpg", "jpeg", "png", "webp"};
  std::string cache_dir = ".cache/trainctl";
  std::optional<ImageLabelsConfig> labels{};

  DatasetFacts facts() const {
    const std::vector<std::string> names = !labels                        ? std::vector<std::string>()
                                           : !labels->class_names.empty() ? labels->class_names
                                                                          : labels->label_columns;
    return {.samples = ImageFacts{.num_channels = 3, .are_files = true, .size = std::nullopt},
            .targets = labels && labels->are_sets() ? Targets::label_sets : Targets::labels,
            .num_classes = static_cast<std::int64_t>(names.size()),
            .class_names = names,
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction},
            .can_fold = true,
            .broken_rules = broken_rules()};
  }
  std::vector<config::BrokenRule> broken_rules() const {
    if (!labels) return {};
    std::vector<config::BrokenRule> broken = labels->broken_rules(eval.has_value(), test.has_value());
    if (class_from != ClassFrom::top_folder)
      broken.push_back({{"class_from", "labels"}, "dataset.labels gives the classes, not the folders; leave this out"});
    return broken;
  }
  static constexpr auto fields() {
    using config::field;
    using C = ImageFolderConfig;
    return config::Fields{
        field<&C::train>("Directory with a folder for each class; with `labels`: with images.",
                         config::required & config::non_empty),
        field<&C::eval>("Directory to evaluate on; its classes are among those of `train`.", config::non_empty),
        field<&C::test>(split_help::test, config::non_empty),
        field<&C::eval_fraction>(
            "Without `eval`: about this share of the training images is kept for evaluation, chosen "
            "by a hash of each one's path, so that the others stay where they are when images are "
            "added.",
            config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other images for evaluation and test.", config::any_seed),
        field<&C::class_from>(
            "`top_folder`: a class is a folder in the directory, with all images below it; `full_path`: every folder "
            "with images is a class of its own, named by its path."),
        field<&C::extensions>(
            "Files with other endings are passed over; upper case counts as lower. What a file is, its "
            "content says.",
            config::non_empty),
        field<&C::cache_dir>("Where the list of files is kept for the next run; with `labels` there is no list.",
                             config::non_empty),
        field<&C::labels>("Tables with the images' labels; null: folders are classes."),
    };
  }
};

/// torchvision's RandomResizedCrop, antialiased bilinear (https://arxiv.org/abs/1409.4842).
struct RandomResizedCropConfig {
  static constexpr std::string_view kind = "random_resized_crop";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = true};
  std::int64_t size = 224;
  std::optional<std::int64_t> width;
  std::vector<double> scale = {0.08, 1};
  std::vector<double> ratio = {0.75, 1.3333333333333333};

  static constexpr auto fields() {
    using config::field;
    using C = RandomResizedCropConfig;
    return config::Fields{
        field<&C::size>("Rows of the result, and columns where `width` isn't given.", config::between(1, 16384)),
        field<&C::width>("Columns of the result.", config::between(1, 16384)),
        field<&C::scale>("Smallest and largest share of the image's area.", config::fraction & config::positive),
        field<&C::ratio>("Smallest and largest aspect ratio (width over height) of the crop.", config::positive),
    };
  }
};

/// torchvision's Resize, antialiased bilinear.
struct ResizeConfig {
  static constexpr std::string_view kind = "resize";
  static constexpr TransformTraits traits{
      .is_random = false, .needs_bytes = true, .needs_floats = false, .masks_follow = true};
  std::int64_t size = 256;
  std::optional<std::int64_t> width;
  std::optional<std::int64_t> max_size;

  static constexpr auto fields() {
    using config::field;
    using C = ResizeConfig;
    return config::Fields{
        field<&C::size>("Of the shorter side, in proportion; with `width`: rows of the result.",
                        config::between(1, 16384)),
        field<&C::width>("Columns of the result, whatever the proportions.", config::between(1, 16384)),
        field<&C::max_size>("The longer side is no longer than this, even if the shorter then is below `size`.",
                            config::between(1, 16384)),
    };
  }
};

/// torchvision's CenterCrop: black where the image is smaller.
struct CenterCropConfig {
  static constexpr std::string_view kind = "center_crop";
  static constexpr TransformTraits traits{
      .is_random = false, .needs_bytes = true, .needs_floats = false, .masks_follow = true};
  std::int64_t size = 224;
  std::optional<std::int64_t> width;

  static constexpr auto fields() {
    using config::field;
    using C = CenterCropConfig;
    return config::Fields{
        field<&C::size>("Rows of the result, and columns where `width` isn't given.", config::between(1, 16384)),
        field<&C::width>("Columns of the result.", config::between(1, 16384)),
    };
  }
};

/// torchvision.transforms.RandomCrop(size of the image, padding).
struct RandomCropConfig {
  static constexpr std::string_view kind = "random_crop";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = true};
  std::int64_t padding = 4;

  static constexpr auto fields() {
    return config::Fields{config::field<&RandomCropConfig::padding>(
        "Black pixels added on each side before a crop of the original size.", config::between(0, 1024))};
  }
};

/// torchvision.transforms.RandomHorizontalFlip.
struct RandomHorizontalFlipConfig {
  static constexpr std::string_view kind = "random_horizontal_flip";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = false, .needs_floats = false, .masks_follow = true};
  double p = 0.5;

  static constexpr auto fields() {
    return config::Fields{config::field<&RandomHorizontalFlipConfig::p>("Probability.", config::fraction)};
  }
};

/// torchvision.transforms.RandomVerticalFlip.
struct RandomVerticalFlipConfig {
  static constexpr std::string_view kind = "random_vertical_flip";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = false, .needs_floats = false, .masks_follow = true};
  double p = 0.5;

  static constexpr auto fields() {
    return config::Fields{config::field<&RandomVerticalFlipConfig::p>("Probability.", config::fraction)};
  }
};

/// torchvision's ColorJitter: the four in a random order, each by a random factor.
struct ColorJitterConfig {
  static constexpr std::string_view kind = "color_jitter";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = true};
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;

  static constexpr auto fields() {
    using config::field;
    using C = ColorJitterConfig;
    return config::Fields{
        field<&C::brightness>("The factor lies between 1 - this (0 at least) and 1 + this; 0 leaves brightness alone.",
                              config::non_negative),
        field<&C::contrast>("Likewise.", config::non_negative),
        field<&C::saturation>("Likewise.", config::non_negative),
        field<&C::hue>("The hue turns by at most this part of the colour circle, either way.", config::between(0, 0.5)),
    };
  }
};

enum class Interpolation { nearest, bilinear };

/// torchvision's RandAugment (https://arxiv.org/abs/1909.13719).
struct RandAugmentConfig {
  static constexpr std::string_view kind = "rand_augment";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = false};
  std::int64_t num_ops = 2;
  std::int64_t magnitude = 9;
  std::int64_t num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;

  static constexpr auto fields() {
    using config::field;
    using C = RandAugmentConfig;
    return config::Fields{
        field<&C::num_ops>("Operations on each image.", config::between(0, 16)),
        field<&C::magnitude>("Strength of all operations, below num_magnitude_bins.", config::between(0, 1000)),
        field<&C::num_magnitude_bins>("Steps into which each operation's range is cut.", config::between(2, 1001)),
        field<&C::interpolation>("How shears, shifts and rotations read between pixels."),
        field<&C::fill>("Level, 0 to 255, of what they bring in from outside.", config::between(0, 255)),
    };
  }
};

/// torchvision's TrivialAugmentWide (https://arxiv.org/abs/2103.10158).
struct TrivialAugmentConfig {
  static constexpr std::string_view kind = "trivial_augment";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = false};
  std::int64_t num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;

  static constexpr auto fields() {
    using config::field;
    using C = TrivialAugmentConfig;
    return config::Fields{
        field<&C::num_magnitude_bins>("Steps into which each operation's range is cut.", config::between(2, 1001)),
        field<&C::interpolation>("How shears, shifts and rotations read between pixels."),
        field<&C::fill>("Level, 0 to 255, of what they bring in from outside.", config::between(0, 255)),
    };
  }
};

enum class AugmentPolicy { imagenet, cifar10, svhn };

/// torchvision's AutoAugment (https://arxiv.org/abs/1805.09501).
struct AutoAugmentConfig {
  static constexpr std::string_view kind = "auto_augment";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = true, .needs_floats = false, .masks_follow = false};
  AugmentPolicy policy = AugmentPolicy::imagenet;
  Interpolation interpolation = Interpolation::nearest;
  double fill = 0;

  static constexpr auto fields() {
    using config::field;
    using C = AutoAugmentConfig;
    return config::Fields{
        field<&C::policy>("The data that the 25 pairs of operations were learnt on."),
        field<&C::interpolation>("How shears, shifts and rotations read between pixels."),
        field<&C::fill>("Level, 0 to 255, of what they bring in from outside.", config::between(0, 255)),
    };
  }
};

/// torchvision.transforms.RandomErasing (https://arxiv.org/abs/1708.04896), after normalisation.
struct RandomErasingConfig {
  static constexpr std::string_view kind = "random_erasing";
  static constexpr TransformTraits traits{
      .is_random = true, .needs_bytes = false, .needs_floats = true, .masks_follow = false};
  double p = 0.5;
  std::vector<double> scale = {0.02, 0.33};
  std::vector<double> ratio = {0.3, 3.3};
  double value = 0;

  static constexpr auto fields() {
    using config::field;
    using C = RandomErasingConfig;
    return config::Fields{
        field<&C::p>("Probability.", config::fraction),
        field<&C::scale>("Smallest and largest share of the image's area.", config::fraction),
        field<&C::ratio>("Smallest and largest aspect ratio (height over width) of the erased rectangle.",
                         config::positive),
        field<&C::value>("What the rectangle is filled with, after normalisation."),
    };
  }
};

/// Pixels become floats: (pixel / 255 - mean) / std, by channel.
struct NormalizeConfig {
  static constexpr std::string_view kind = "normalize";
  static constexpr TransformTraits traits{
      .is_random = false, .needs_bytes = false, .needs_floats = false, .masks_follow = true};
  std::vector<double> mean = {0.5};
  std::vector<double> std = {0.5};

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&NormalizeConfig::mean>("One for each channel, or one for all, on the scale 0 to 1.", config::non_empty),
        field<&NormalizeConfig::std>("One for each channel, or one for all, on the scale 0 to 1.",
                                     config::non_empty & config::positive),
    };
  }
};

using TransformConfig =
    config::OneOf<NormalizeConfig, RandomCropConfig, RandomHorizontalFlipConfig, RandomVerticalFlipConfig,
                  RandomErasingConfig, RandomResizedCropConfig, ResizeConfig, CenterCropConfig, ColorJitterConfig,
                  RandAugmentConfig, TrivialAugmentConfig, AutoAugmentConfig, PluggedTransformConfig>;
static_assert(config::kHaveTraits<TransformConfig, TransformTraits>);

/// The size that a transform gives images, whatever they were; none where it depends on them.
inline std::optional<ImageSize> size_after(const TransformConfig& transform) {
  if (const auto* crop = transform.get_if<RandomResizedCropConfig>())
    return ImageSize{crop->size, crop->width.value_or(crop->size)};
  if (const auto* crop = transform.get_if<CenterCropConfig>())
    return ImageSize{crop->size, crop->width.value_or(crop->size)};
  const auto* resize = transform.get_if<ResizeConfig>();
  return resize != nullptr && resize->width ? std::optional(ImageSize{resize->size, *resize->width}) : std::nullopt;
}

/// The size of all images after all transforms; none where they keep differing. `size` is that of all before them.
inline std::optional<ImageSize> size_after(const std::vector<TransformConfig>& transforms,
                                           std::optional<ImageSize> size = std::nullopt) {
  for (const TransformConfig& transform : transforms)
    if (const auto fixed = size_after(transform))
      size = fixed;
    else if (transform.get_if<ResizeConfig>() != nullptr)
      size = std::nullopt;
  return size;
}

/// Returns the transforms of evaluation if the config gives none: `transforms` without the random ones. In place of
/// random_resized_crop, images are resized to 8/7 of its size and cropped in the middle. If its size is no square, they
/// are stretched, as most crops in training are: in proportion, the crop could be wider than the image.
inline std::vector<TransformConfig> without_randomness(const std::vector<TransformConfig>& transforms) {
  std::vector<TransformConfig> kept;
  for (const TransformConfig& transform : transforms) {
    if (const auto* crop = transform.get_if<RandomResizedCropConfig>()) {
      const auto larger = [](std::int64_t size) { return (size * 8 + 3) / 7; };
      ResizeConfig resize{.size = larger(crop->size)};
      if (crop->width && *crop->width != crop->size) resize.width = larger(*crop->width);
      kept.push_back(resize);
      kept.push_back(CenterCropConfig{.size = crop->size, .width = crop->width});
    } else if (!config::traits_of(transform).is_random) {
      kept.push_back(transform);
    }
  }
  return kept;
}

/// What to do with a sample that can't be read or decoded. skip: its batch is that much smaller. replace: another
/// sample of the set takes its place.
enum class OnBadSample { fail, skip, replace };

}  // namespace trainctl::dataset

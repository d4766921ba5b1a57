// Images with a class for each pixel. Part of dataset/config.h; without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "dataset/facts.h"

namespace trainctl::dataset {

/// Two directories with equal names: images/a/1.jpg and masks/a/1.png.
struct ImagesWithMasks {
  std::string images;
  std::string masks;

  static constexpr auto fields() {
    using config::field;
    using C = ImagesWithMasks;
    return config::Fields{
        field<&C::images>("Directory with the images, at any depth.", config::required & config::non_empty),
        field<&C::masks>("Directory with a PNG file for each image, at the same path but for the ending. Its pixels "
                         "are class numbers: grey levels, or indices into a palette.",
                         config::required & config::non_empty),
    };
  }
};

/// Semantic segmentation: a class for each pixel of an image.
struct SegmentationFolderConfig {
  static constexpr std::string_view kind = "segmentation_folder";
  static constexpr std::size_t kMostClasses = 255;
  ImagesWithMasks train;
  std::optional<ImagesWithMasks> eval{};
  std::optional<ImagesWithMasks> test{};
  double eval_fraction = 0;
  double test_fraction = 0;
  std::int64_t split_seed = 0;
  std::vector<std::string> class_names;
  std::int64_t ignore_index = 255;
  std::vector<std::string> extensions = {"jpg", "jpeg", "png", "webp"};

  DatasetFacts facts() const {
    return {.samples = ImageFacts{.num_channels = 3, .are_files = true, .size = std::nullopt},
            .targets = Targets::class_masks,
            .num_classes = static_cast<std::int64_t>(class_names.size()),
            .class_names = class_names,
            .eval = EvalFacts{.has_own_set = eval.has_value(), .kept_share = eval_fraction},
            .test = {.has_own_set = test.has_value(), .kept_share = test_fraction},
            .can_fold = true,
            .broken_rules = broken_rules()};
  }
  std::vector<config::BrokenRule> broken_rules() const {
    if (class_names.size() <= kMostClasses) return {};
    return {{{"class_names"},
             "expected at most " + std::to_string(kMostClasses) + " classes, which masks of 8 bits can have, got " +
                 std::to_string(class_names.size())}};
  }
  static constexpr auto fields() {
    using config::field;
    using C = SegmentationFolderConfig;
    return config::Fields{
        field<&C::train>("Images to train on, and their masks.", config::required),
        field<&C::eval>("Images to evaluate on, and their masks."),
        field<&C::test>(split_help::test),
        field<&C::eval_fraction>("Without `eval`: about this share of the training images is kept for evaluation, "
                                 "chosen by a hash of each one's path.",
                                 config::below_one),
        field<&C::test_fraction>(split_help::test_fraction, config::below_one),
        field<&C::split_seed>("Another seed keeps other images for evaluation and test.", config::any_seed),
        field<&C::class_names>("The classes' names, in the order of their numbers in the masks, from 0.",
                               config::required & config::non_empty),
        field<&C::ignore_index>("Pixels with this number have no class: neither the loss nor a metric counts them.",
                                config::between(0, 255)),
        field<&C::extensions>("Endings of the images; upper case counts as lower.", config::non_empty),
    };
  }
};

}  // namespace trainctl::dataset

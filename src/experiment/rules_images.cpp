#include <algorithm>

#include "experiment/rules.h"

namespace trainctl::experiment {
namespace {

using Transforms = std::vector<dataset::TransformConfig>;

/// Whether images are files, of whatever size each has.
bool has_image_files(const dataset::SourceConfig& source) {
  const dataset::DatasetFacts facts = config::facts_of(source);
  return facts.images() != nullptr && facts.images()->are_files;
}

void check_transform(Checked& c, const dataset::TransformConfig& transform, const std::string& path) {
  if (const auto* crop = transform.get_if<dataset::RandomResizedCropConfig>()) {
    check_pair(c, crop->scale, path + ".scale");
    check_pair(c, crop->ratio, path + ".ratio");
  }
  if (const auto* jitter = transform.get_if<dataset::ColorJitterConfig>();
      jitter != nullptr && std::max({jitter->brightness, jitter->contrast, jitter->saturation, jitter->hue}) == 0)
    c.report({path}, "changes nothing while brightness, contrast, saturation and hue are 0");
  if (const auto* resize = transform.get_if<dataset::ResizeConfig>(); resize != nullptr && resize->max_size) {
    if (resize->width)
      c.report({path + ".max_size", path + ".width"}, "with width, the size is fixed; leave one of the two out");
    else if (*resize->max_size <= resize->size)
      c.report({path + ".max_size", path + ".size"},
               "the longer side's limit must be above size, " + std::to_string(resize->size));
  }
  if (const auto* augment = transform.get_if<dataset::RandAugmentConfig>();
      augment != nullptr && augment->magnitude >= augment->num_magnitude_bins)
    c.report({path + ".magnitude", path + ".num_magnitude_bins"}, "expected a number below num_magnitude_bins, " +
                                                                      std::to_string(augment->num_magnitude_bins) +
                                                                      ", got " + std::to_string(augment->magnitude));
}

void check_list(Checked& c, const Transforms& transforms, const std::string& path) {
  bool normalized = false;
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    const std::string at = config::join_path(path, i);
    check_transform(c, transforms[i], at);
    if (normalized && config::traits_of(transforms[i]).needs_bytes)
      c.report({at}, std::string(transforms[i].kind()) + " must come before normalize: it works on bytes");
    if (config::facts_of(c.experiment.dataset.source).targets == dataset::Targets::class_masks &&
        !config::traits_of(transforms[i]).masks_follow)
      c.report({at, "dataset.kind"}, std::string(transforms[i].kind()) +
                                         " moves or erases pixels in a way that masks can't follow; leave it out");
    normalized = normalized || transforms[i].get_if<dataset::NormalizeConfig>() != nullptr;
  }
}

/// Images of files differ in size until a transform makes them alike; evaluation must see those of training.
void check_sizes(Checked& c) {
  const dataset::DatasetConfig& dataset = c.experiment.dataset;
  const Transforms eval = dataset.eval_transforms.value_or(dataset::without_randomness(dataset.transforms));
  const auto train_size = dataset::size_after(dataset.transforms);
  const auto eval_size = dataset::size_after(eval);
  const std::string why =
      "image files differ in size; give all one with random_resized_crop, center_crop, or resize with "
      "a width";
  if (has_image_files(dataset.source) && !train_size) c.report({"dataset.transforms", "dataset.kind"}, why);
  if (!dataset.eval_transforms) return;
  if (has_image_files(dataset.source) && !eval_size) c.report({"dataset.eval_transforms", "dataset.kind"}, why);
  const auto text = [](const dataset::ImageSize& size) {
    return std::to_string(size.height) + "×" + std::to_string(size.width);
  };
  if (train_size && eval_size && *train_size != *eval_size)
    c.report({"dataset.eval_transforms", "dataset.transforms"},
             "these give " + text(*eval_size) + " pixels, dataset.transforms " + text(*train_size));
}

/// What of a dataset's own settings needs images, or image files.
void check_pixels(Checked& c) {
  const dataset::DatasetConfig& dataset = c.experiment.dataset;
  const std::string kind(dataset.source.kind());
  if (dataset.image_cache.shared && dataset.image_cache.size_mib == 0)
    c.report({"dataset.image_cache.shared", "dataset.image_cache.size_mib"},
             "there is no cache to share: set dataset.image_cache.size_mib");
  if (dataset.image_cache.size_mib > 0 && !has_image_files(dataset.source))
    c.report({"dataset.image_cache.size_mib", "dataset.kind"},
             "it keeps decoded images; " + kind + " has nothing to decode");
  if (dataset.on_bad_sample != dataset::OnBadSample::fail && !has_image_files(dataset.source))
    c.report({"dataset.on_bad_sample", "dataset.kind"},
             "it is for image files that can't be read; " + kind + " has none, and what it can't read stops the run");
  if (dataset.normalize_on != dataset::NormalizeOn::auto_ && !has_images(dataset.source))
    c.report({"dataset.normalize_on", "dataset.kind"}, "it is for images; " + kind + " has none");
  if (dataset.normalize_on != dataset::NormalizeOn::device) return;
  const auto works_on_floats =
      std::find_if(dataset.transforms.begin(), dataset.transforms.end(),
                   [](const dataset::TransformConfig& transform) { return config::traits_of(transform).needs_floats; });
  if (works_on_floats != dataset.transforms.end())
    c.report({"dataset.normalize_on", "dataset.transforms"},
             std::string(works_on_floats->kind()) +
                 " fills in normalised values, in the workers; leave normalize_on at auto or host");
}

}  // namespace

void check_images(Checked& checked) {
  check_pixels(checked);
  const dataset::DatasetConfig& dataset = checked.experiment.dataset;
  if (!has_images(dataset.source)) {
    if (dataset.eval_transforms)
      checked.report({"dataset.eval_transforms", "dataset.kind"},
                     "these change images; " + std::string(dataset.source.kind()) + " has none");
    return;
  }
  check_list(checked, dataset.transforms, "dataset.transforms");
  if (dataset.eval_transforms) {
    check_list(checked, *dataset.eval_transforms, "dataset.eval_transforms");
    for (std::size_t i = 0; i < dataset.eval_transforms->size(); ++i)
      if (config::traits_of((*dataset.eval_transforms)[i]).is_random)
        checked.report({config::join_path("dataset.eval_transforms", i)},
                       std::string((*dataset.eval_transforms)[i].kind()) + " is random; evaluation repeats itself");
  }
  check_sizes(checked);
}

}  // namespace trainctl::experiment

#include <catch2/catch.hpp>

#include "core/error.h"
#include "experiment/load.h"
#include "problem_lines.h"

namespace trainctl::experiment::image_rules_test {

using namespace trainctl;
using namespace trainctl::experiment;
using Catch::Matchers::Contains;

namespace {

/// All problems of an experiment with this dataset, a line each, without the file's name.
std::string problems_with(const std::string& dataset) {
  return problem_lines("name: x\nmodel: mlp\ntrain: {steps: 100}\ndataset: {" + dataset + "}\n");
}

const std::string kFolder = "kind: image_folder, train: photos, transforms: ";

}  // namespace

TEST_CASE("image files need transforms that make them of one size", "[experiment]") {
  CHECK(problems_with(kFolder + "[{kind: random_resized_crop, size: 224}, normalize]") == "");
  CHECK(problems_with(kFolder + "[{kind: resize, size: 256}, {kind: center_crop, size: 224}]") == "");
  CHECK(problems_with(kFolder + "[{kind: resize, size: 32, width: 64}]") == "");
  for (const char* transforms : {"[]", "[normalize]", "[{kind: resize, size: 256}]",
                                 "[{kind: center_crop, size: 224}, {kind: resize, size: 256}]"})
    CHECK_THAT(problems_with(kFolder + transforms), Contains("dataset.transforms: image files differ in size"));
  CHECK(problems_with("kind: synthetic_images, transforms: [normalize]") == "");
}

TEST_CASE("evaluation has its own transforms, of the same size and without chance", "[experiment]") {
  const std::string train = kFolder + "[{kind: random_resized_crop, size: 224}], eval_transforms: ";
  CHECK(problems_with(train + "[{kind: resize, size: 232}, {kind: center_crop, size: 224}]") == "");
  CHECK_THAT(problems_with(train + "[{kind: resize, size: 232}]"),
             Contains("dataset.eval_transforms: image files differ in size"));
  CHECK_THAT(problems_with(train + "[{kind: center_crop, size: 256}]"),
             Contains("these give 256×256 pixels, dataset.transforms 224×224"));
  CHECK_THAT(problems_with(train + "[{kind: center_crop, size: 224}, random_horizontal_flip]"),
             Contains("dataset.eval_transforms[1]: random_horizontal_flip is random"));
  CHECK_THAT(problems_with("kind: synthetic_tokens, eval_transforms: [normalize]"),
             Contains("dataset.eval_transforms: these change images; synthetic_tokens has none"));
}

TEST_CASE("transforms' own keys fit together", "[experiment]") {
  const auto problems = [](const std::string& transform) {
    return problems_with("kind: synthetic_images, transforms: [" + transform + "]");
  };
  CHECK_THAT(problems("{kind: random_resized_crop, scale: [0.9, 0.1]}"),
             Contains("transforms[0].scale: expected [smallest, largest], but the first is larger"));
  CHECK_THAT(problems("{kind: random_resized_crop, ratio: [1]}"),
             Contains("transforms[0].ratio: expected [smallest, largest], got 1 numbers"));
  CHECK_THAT(problems("{kind: resize, size: 10, max_size: 10}"),
             Contains("transforms[0].max_size: the longer side's limit must be above size, 10"));
  CHECK_THAT(problems("{kind: resize, size: 10, width: 9, max_size: 12}"),
             Contains("transforms[0].max_size: with width, the size is fixed"));
  CHECK_THAT(problems("{kind: rand_augment, magnitude: 31}"),
             Contains("transforms[0].magnitude: expected a number below num_magnitude_bins, 31, got 31"));
  CHECK_THAT(problems("normalize, {kind: color_jitter, hue: 0.1}"),
             Contains("transforms[1]: color_jitter must come before normalize"));
  CHECK_THAT(problems("{kind: color_jitter, hue: 0.6}"), Contains("dataset.transforms[0].hue"));
  CHECK_THAT(problems("color_jitter"), Contains("dataset.transforms[0]: changes nothing while brightness, contrast"));
}

TEST_CASE("a cache keeps decoded images, and is shared where there is one", "[experiment]") {
  const std::string folder = kFolder + "[{kind: random_resized_crop, size: 224}], ";
  CHECK(problems_with(folder + "image_cache: {size_mib: 100, shared: true}") == "");
  CHECK_THAT(problems_with(folder + "image_cache: {shared: true}"),
             Contains("dataset.image_cache.shared: there is no cache to share"));
  CHECK_THAT(problems_with("kind: synthetic_images, image_cache: {size_mib: 5}"),
             Contains("dataset.image_cache.size_mib: it keeps decoded images; synthetic_images has nothing to decode"));
}

TEST_CASE("files of images may be bad", "[experiment]") {
  CHECK(problems_with(kFolder + "[{kind: random_resized_crop, size: 224}], on_bad_sample: skip") == "");
  for (const std::string kind : {"synthetic_images", "synthetic_tokens"})
    CHECK_THAT(problems_with("kind: " + kind + ", on_bad_sample: skip"),
               Contains("dataset.on_bad_sample: it is for image files that can't be read; " + kind + " has none"));
}

TEST_CASE("the device normalises images on which nothing works as floats before", "[experiment]") {
  CHECK(problems_with("kind: synthetic_images, normalize_on: device, transforms: [normalize]") == "");
  CHECK(problems_with("kind: synthetic_images, normalize_on: auto, transforms: [random_erasing]") == "");
  CHECK_THAT(problems_with("kind: synthetic_images, normalize_on: device, transforms: [random_erasing]"),
             Contains("dataset.normalize_on: random_erasing fills in normalised values"));
  for (const std::string place : {"device", "host"})
    CHECK_THAT(problems_with("kind: synthetic_tokens, normalize_on: " + place),
               Contains("dataset.normalize_on: it is for images; synthetic_tokens has none"));
}

TEST_CASE("tables of labels go with the directories, and have labels in one form", "[experiment]") {
  const std::string folder = kFolder + "[{kind: resize, size: 8, width: 8}], labels: ";
  CHECK(problems_with(folder + "{train: a.csv}") == "");
  CHECK(problems_with(folder + "{train: a.csv, separator: ' '}") == "");
  CHECK_THAT(problems_with(folder + "{train: a.csv}, eval: more"),
             Contains("dataset.eval has images; set labels.eval to their table"));
  CHECK_THAT(problems_with(folder + "{train: a.csv, eval: b.csv}"),
             Contains("dataset.labels.eval: there is no dataset.eval with such images"));
  CHECK_THAT(problems_with(folder + "{train: a.csv, separator: '|', label_columns: [x, y]}"),
             Contains("dataset.labels.separator: label_columns has a column for each label"));
  CHECK_THAT(problems_with(folder + "{train: a.csv, label: x, label_columns: [x, y]}"),
             Contains("dataset.labels.label: label_columns takes the place of this column"));
  CHECK_THAT(problems_with(folder + "{train: a.csv, label_columns: [x, y], class_names: [x]}"),
             Contains("expected a name for each of the 2 label_columns, got 1"));
  CHECK_THAT(problems_with(folder + "{train: a.csv}, class_from: full_path"), Contains("dataset.class_from"));
  CHECK_THAT(problems_with(folder + "{train: a.csv}, cache_dir: lists"),
             Contains("dataset.cache_dir: changes nothing while dataset.labels lists the images"));
}

TEST_CASE("images with several labels and the task for these need each other", "[experiment]") {
  const auto problems = [](const std::string& labels, const std::string& task) {
    return problem_lines("name: x\nmodel: mlp\ntrain: {steps: 100}\ntask: " + task + "\ndataset: {" + kFolder +
                         "[{kind: resize, size: 8, width: 8}], labels: {train: a.csv" + labels + "}}\n");
  };
  CHECK(problems(", separator: '|'", "multi_label_classification") == "");
  CHECK_THAT(
      problems(", separator: '|'}, balanced_sampling: true, image_cache: {size_mib: 0", "multi_label_classification"),
      Contains("dataset.balanced_sampling: draws each class equally often"));
  CHECK_THAT(problems(", separator: '|'", "classification"), Contains("expected multi_label_classification"));
  CHECK_THAT(problems("", "multi_label_classification"), Contains("expected classification"));
}

TEST_CASE("segmentation takes transforms that masks can follow, and a network with an output per pixel",
          "[experiment]") {
  const auto problems = [](const std::string& transforms, const std::string& model, const std::string& more = "") {
    return problem_lines("name: x\ntrain: {steps: 100}\nmodel: " + model +
                         "\ndataset: {kind: segmentation_folder, train: {images: i, masks: m}, class_names: [a, b], "
                         "transforms: [{kind: random_resized_crop, size: 16}" +
                         transforms + "]}\n" + more);
  };
  const std::string network = "{kind: layers, layers: [{kind: conv2d, channels: auto}]}";
  CHECK(problems(", random_horizontal_flip, normalize", network) == "");
  CHECK_THAT(problems(", rand_augment", network),
             Contains("rand_augment moves or erases pixels in a way that masks can't follow"));
  CHECK_THAT(problems(", normalize, random_erasing", network), Contains("random_erasing moves or erases pixels"));
  CHECK_THAT(problems("", "resnet18"), Contains("resnet18 has no head for semantic_segmentation"));
  CHECK_THAT(problems("", "{kind: layers, layers: [{kind: conv2d, channels: auto}, global_avg_pool]}"),
             Contains("the last layer gives a row [2], and task semantic_segmentation needs an image [2, 16, 16]"));
  CHECK_THAT(problems("", "{kind: layers, layers: [{kind: conv2d, channels: auto, stride: 2}]}"),
             Contains("gives an image [2, 8, 8], and task semantic_segmentation needs an image [2, 16, 16]"));
  CHECK_THAT(problems("", network, "task: classification\n"), Contains("expected semantic_segmentation"));
}

}  // namespace trainctl::experiment::image_rules_test

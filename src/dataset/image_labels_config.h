// Labels of image files in a table. Part of dataset/image_config.h; without LibTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "config/stated.h"

namespace trainctl::dataset {

/// Tables with a row per image: torchvision and Hugging Face call such a file metadata.csv, Kaggle train.csv.
struct ImageLabelsConfig {
  std::string train;
  std::optional<std::string> eval;
  std::optional<std::string> test;
  std::string file = "file_name";
  std::string label = "label";
  std::optional<std::string> separator;
  std::vector<std::string> label_columns;
  std::vector<std::string> class_names;

  /// Returns whether an image may have several labels, or none.
  bool are_sets() const { return separator.has_value() || !label_columns.empty(); }

  /// Returns the rules that these keys break. `has_eval`, `has_test`: whether there are such directories.
  std::vector<config::BrokenRule> broken_rules(bool has_eval, bool has_test) const {
    std::vector<config::BrokenRule> broken;
    const auto check_set = [&](const std::string& set, bool has_directory, bool has_table) {
      if (has_directory && !has_table)
        broken.push_back({{"labels", set}, "dataset." + set + " has images; set labels." + set + " to their table"});
      if (has_table && !has_directory)
        broken.push_back({{"labels." + set, set}, "there is no dataset." + set + " with such images"});
    };
    check_set("eval", has_eval, eval.has_value());
    check_set("test", has_test, test.has_value());
    if (separator && !label_columns.empty())
      broken.push_back({{"labels.separator", "labels.label_columns"},
                        "label_columns has a column for each label; leave one of the two out"});
    if (label != ImageLabelsConfig{}.label && !label_columns.empty())
      broken.push_back({{"labels.label", "labels.label_columns"},
                        "label_columns takes the place of this column; leave one of the two out"});
    if (!class_names.empty() && !label_columns.empty() && class_names.size() != label_columns.size())
      broken.push_back({{"labels.class_names", "labels.label_columns"},
                        "expected a name for each of the " + std::to_string(label_columns.size()) +
                            " label_columns, got " + std::to_string(class_names.size())});
    return broken;
  }

  static constexpr auto fields() {
    using config::field;
    using C = ImageLabelsConfig;
    return config::Fields{
        field<&C::train>("CSV or TSV file with a row for each image of `train`; images without a row are left out.",
                         config::required & config::non_empty),
        field<&C::eval>("The same for the directory `eval`.", config::non_empty),
        field<&C::test>("The same for the directory `test`.", config::non_empty),
        field<&C::file>("Column with the file name below the directory, by name or by number from 1. A name without an "
                        "ending gets the one of dataset.extensions with which there is a file.",
                        config::non_empty),
        field<&C::label>("Column with the label, by name or by number from 1.", config::non_empty),
        field<&C::separator>("Text between the labels of an image in the column `label`, such as `|`: an image may "
                             "have several labels, or none.",
                             config::non_empty),
        field<&C::label_columns>("In place of `label`: columns of 0 and 1, one for each class. An image may have "
                                 "several labels, or none."),
        field<&C::class_names>("The classes' names, in the order of their numbers; empty takes those of the training "
                               "rows, sorted (as numbers, where all are)."),
    };
  }
};

}  // namespace trainctl::dataset

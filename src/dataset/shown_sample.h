// A sample that a model was given, in a form that a person can look at.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset.h"

namespace trainctl::dataset {

/// Draws an evaluation image, float [C, H, W], as a data URI. The picture is what the network saw, without the
/// normalization, at most 160 pixels wide and high. Images up to 64 pixels are PNG, larger ones JPEG. Returns "" if the
/// image isn't grey or RGB.
std::string picture_of(const at::Tensor& image, const DatasetConfig& config);

/// Draws an image under the colors of its pixels' classes, int64 [H, W], as picture_of() draws it. A pixel without a
/// class, -100, keeps its own color.
std::string masked_picture_of(const at::Tensor& image, const at::Tensor& classes, const DatasetConfig& config);

/// Returns the bytes of a PNG file whose palette indices are these classes, uint8 [H, W].
std::string mask_file_of(const at::Tensor& classes);

/// Returns the columns of a row of a table, by name, from the inputs that the encoding made of them. A missing number
/// is shown as the value that stands for it.
std::vector<std::pair<std::string, std::string>> columns_of(const at::Tensor& inputs, const SampleSpec& spec);

}  // namespace trainctl::dataset

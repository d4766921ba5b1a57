// Pooling of images [B, C, H, W] and tokens [B, T, D].
#pragma once

#include <ATen/core/Tensor.h>

#include "model/layers/image_shape.h"

namespace trainctl::model {

/// The largest of each 2×2, or 0 if that is less; a last odd row or column is dropped.
at::Tensor relu_of_max_pool_2x2(const at::Tensor& input);
ImageShape max_pool_2x2_shape(const ImageShape& input);

/// Does that for windows of 3×3, stride 2, padding 1.
at::Tensor relu_of_max_pool_3x3_stride2(const at::Tensor& input);
ImageShape max_pool_3x3_stride2_shape(const ImageShape& input);

/// Mean over all pixels: [B, C, H, W] -> [B, C].
at::Tensor global_average_pool(const at::Tensor& input);

/// Mean over tokens that are not padding: [B, T, D] -> [B, D]. `key_mask` bool [B, T], false at padding; undefined: no
/// padding.
at::Tensor mean_of_tokens(const at::Tensor& hidden, const at::Tensor& key_mask);

/// Largest values over tokens that are not padding: [B, T, D] -> [B, D].
at::Tensor max_of_tokens(const at::Tensor& hidden, const at::Tensor& key_mask);

/// Divides each row by its Euclidean length: [B, D].
at::Tensor unit_length(const at::Tensor& rows);

}  // namespace trainctl::model

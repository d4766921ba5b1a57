// Blending pairs of images: mixup (https://arxiv.org/abs/1710.09412) and cutmix (https://arxiv.org/abs/1905.04899), as
// torchvision.transforms.v2 defines them: sample i meets sample i-1 of its batch. Pure functions of the given stream.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/random.h"

namespace trainctl::task {

/// Images that are `share` of their own label and 1 - share of the label of the sample before (the first: the last).
struct Mixed {
  at::Tensor images;  // [B, C, H, W]
  double share = 1;
};

/// Draws a number from Beta(alpha, alpha).
double draw_beta(double alpha, runtime::Random& random);

Mixed mixup(const at::Tensor& images, double alpha, runtime::Random& random);
Mixed cutmix(const at::Tensor& images, double alpha, runtime::Random& random);

/// Sample i takes the place of sample i+1, the last that of the first; keeps the layout in memory.
at::Tensor roll_by_one(const at::Tensor& batch);

}  // namespace trainctl::task

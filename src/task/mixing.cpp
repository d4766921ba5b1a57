#include "task/mixing.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/lerp.h>

#include <algorithm>
#include <cmath>

namespace trainctl::task {
namespace {

/// Draws the logarithm of a Gamma(shape, 1) variate: G. Marsaglia, W. W. Tsang, https://doi.org/10.1145/358407.358414.
double draw_log_gamma(double shape, runtime::Random& random) {
  // For shape < 1: Gamma(a) = Gamma(a + 1) U^(1/a). Logarithms avoid an underflow of that power for small a.
  if (shape < 1) {
    const double power = std::log1p(-random.uniform()) / shape;
    return draw_log_gamma(shape + 1, random) + power;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double log_v = 3 * std::log(root);
    if (std::log1p(-random.uniform()) < 0.5 * x * x + d * (1 - std::exp(log_v) + log_v)) return std::log(d) + log_v;
  }
}

}  // namespace

double draw_beta(double alpha, runtime::Random& random) {
  const double a = draw_log_gamma(alpha, random);
  const double b = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

at::Tensor roll_by_one(const at::Tensor& batch) {
  const std::int64_t last = batch.size(0) - 1;
  return at::cat({batch.narrow(0, last, 1), batch.narrow(0, 0, last)});
}

Mixed mixup(const at::Tensor& images, double alpha, runtime::Random& random) {
  const double share = draw_beta(alpha, random);
  return {.images = at::lerp(roll_by_one(images), images, share), .share = share};
}

Mixed cutmix(const at::Tensor& images, double alpha, runtime::Random& random) {
  const double side = 0.5 * std::sqrt(1 - draw_beta(alpha, random));  // half the box's side; the image's is 1
  const std::int64_t height = images.size(2);
  const std::int64_t width = images.size(3);
  const std::int64_t center_x = random.below(width);
  const std::int64_t center_y = random.below(height);
  const auto half_width = static_cast<std::int64_t>(side * static_cast<double>(width));
  const auto half_height = static_cast<std::int64_t>(side * static_cast<double>(height));
  const std::int64_t left = std::max<std::int64_t>(center_x - half_width, 0);
  const std::int64_t top = std::max<std::int64_t>(center_y - half_height, 0);
  const std::int64_t box_width = std::min(center_x + half_width, width) - left;
  const std::int64_t box_height = std::min(center_y + half_height, height) - top;

  const auto box = [&](const at::Tensor& of) { return of.narrow(2, top, box_height).narrow(3, left, box_width); };
  at::Tensor mixed = images.clone();
  if (box_width > 0 && box_height > 0) box(mixed).copy_(roll_by_one(box(images)));
  const double area = static_cast<double>(box_width * box_height) / static_cast<double>(width * height);
  return {.images = mixed, .share = 1 - area};
}

}  // namespace trainctl::task

#include "dataset/image/transform/resample.h"

#include <algorithm>
#include <cmath>

#include "dataset/image/transform/resample_rows.h"

namespace trainctl::dataset {
namespace {

constexpr std::size_t kRoom = 32;  // bytes beyond a row that vector code may touch

double triangle(double x) {
  return std::max(0.0, 1.0 - std::abs(x));
}

}  // namespace

/// Computes the weights by the same steps as ATen's _compute_index_ranges_int16_weights, so that the bits agree.
void FilterAxis::set(const Range& range) {
  const auto origin = static_cast<std::int64_t>(std::floor(range.begin));
  const std::int64_t limit =
      std::min(range.input, static_cast<std::int64_t>(std::ceil(range.begin + range.size - 1e-9))) - origin;
  const double scale = range.size / static_cast<double>(range.output);
  const double support = std::max(scale, 1.0);
  const double sharpness = 1 / support;
  stride = (static_cast<std::int64_t>(std::ceil(support)) * 2 + 1 + 3) / 4 * 4;
  const auto count = static_cast<std::size_t>(range.count);
  first.resize(count);
  length.resize(count);
  weights.assign(count * static_cast<std::size_t>(stride), 0);
  exact_.assign(weights.size(), 0);
  // Also of pixels that aren't made, since the largest weight sets the precision of all.
  double largest = 0;
  longest = 0;
  std::vector<double> row(static_cast<std::size_t>(stride));
  for (std::int64_t output = 0; output < range.output; ++output) {
    const double center = range.begin - static_cast<double>(origin) + scale * (static_cast<double>(output) + 0.5);
    const std::int64_t begin = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
    const std::int64_t end = std::min(static_cast<std::int64_t>(center + support + 0.5), limit);
    const auto taps = static_cast<std::size_t>(std::clamp<std::int64_t>(end - begin, 0, stride));
    double total = 0;
    for (std::size_t k = 0; k < taps; ++k)
      total += row[k] = triangle((static_cast<double>(begin) + static_cast<double>(k) - center + 0.5) * sharpness);
    for (std::size_t k = 0; k < taps; ++k) largest = std::max(largest, row[k] /= total);
    if (output < range.from || output >= range.from + range.count) continue;
    const auto i = static_cast<std::size_t>(output - range.from);
    first[i] = origin + begin;
    length[i] = static_cast<std::int64_t>(taps);
    longest = std::max(longest, length[i]);
    std::copy_n(row.begin(), taps, exact_.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(stride)));
  }
  for (precision = 0; precision < 22; ++precision)
    if (static_cast<std::int64_t>(0.5 + largest * static_cast<double>(1 << (precision + 1))) >= 1 << 15) break;
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<std::int16_t>(exact_[i] * static_cast<double>(1 << precision) + 0.5);
}

void Resampler::begin(ImageView input, const ResamplePlan& plan) {
  input_ = input;
  part_width_ = plan.part.width;
  down_.set({plan.box.top, plan.box.height, input.height, plan.height, plan.part.top, plan.part.height});
  across_.set({plan.box.left, plan.box.width, input.width, plan.width, plan.part.left, plan.part.width});
  left_ = across_.first.front();
  columns_ = across_.first.back() + across_.length.back() - left_;
  for (std::int64_t& first : across_.first) first -= left_;
  taps_.resize(static_cast<std::size_t>(down_.stride));
  mixed_.resize(static_cast<std::size_t>((columns_ + across_.stride) * input.channels) + kRoom);
  output_.resize(static_cast<std::size_t>(part_width_ * input.channels) + kRoom);
}

const std::uint8_t* Resampler::row(std::int64_t y) {
  const auto at = static_cast<std::size_t>(y);
  const std::int64_t channels = input_.channels;
  const std::int64_t last = down_.length[at] - 1;
  for (std::int64_t k = 0; k <= last + 1 && k < down_.stride; ++k)
    taps_[static_cast<std::size_t>(k)] = input_.row(down_.first[at] + std::min(k, last)) + left_ * channels;
  mix_rows({.rows = taps_.data(),
            .weights = down_.weights.data() + y * down_.stride,
            .length = down_.length[at],
            .precision = down_.precision,
            .bytes = columns_ * channels,
            .output = mixed_.data()});
  mix_columns({.row = mixed_.data(),
               .first = across_.first.data(),
               .length = across_.length.data(),
               .longest = across_.longest,
               .weights = across_.weights.data(),
               .stride = across_.stride,
               .precision = across_.precision,
               .width = part_width_,
               .channels = channels,
               .output = output_.data()});
  return output_.data();
}

void resample(const Image& input, const ResamplePlan& plan, Resampler& resampler, Image& output) {
  output.resize(plan.part.height, plan.part.width, input.channels);
  resampler.begin(input, plan);
  for (std::int64_t y = 0; y < output.height; ++y) std::copy_n(resampler.row(y), output.row_bytes(), output.row(y));
}

Image resize(const Image& image, std::int64_t height, std::int64_t width) {
  const Box whole{.height = static_cast<double>(image.height), .width = static_cast<double>(image.width)};
  Resampler resampler;
  Image output;
  resample(image, {whole, height, width, {.height = height, .width = width}}, resampler, output);
  return output;
}

}  // namespace trainctl::dataset

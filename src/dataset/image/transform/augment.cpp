#include "dataset/image/transform/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace trainctl::dataset {
namespace {

using ByteTable = std::array<std::uint8_t, 256>;

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
}

template <class Function>
ByteTable tabulate(const Function& function) {
  ByteTable table{};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = function(static_cast<int>(i));
  return table;
}

void look_up(Image& image, const ByteTable& table) {
  std::uint8_t* const bytes = image.bytes.data();
  const std::size_t size = image.size();
  for (std::size_t i = 0; i < size; ++i) bytes[i] = table[bytes[i]];
}

void look_up(Image& image, const ByteTable& table, std::int64_t channel) {
  std::uint8_t* const bytes = image.bytes.data();
  const auto size = static_cast<std::int64_t>(image.size());
  for (std::int64_t i = channel; i < size; i += image.channels) bytes[i] = table[bytes[i]];
}

using Histogram = std::array<std::int64_t, 256>;

Histogram histogram(const Image& image, std::int64_t channel) {
  Histogram counts{};
  const auto size = static_cast<std::int64_t>(image.size());
  for (std::int64_t i = channel; i < size; i += image.channels) ++counts[image.bytes[static_cast<std::size_t>(i)]];
  return counts;
}

/// Returns the grey value by torchvision's weights, rounded down.
float grey_of(const std::uint8_t* pixel) {
  return std::floor(static_cast<float>(pixel[0]) * 0.2989F + static_cast<float>(pixel[1]) * 0.587F +
                    static_cast<float>(pixel[2]) * 0.114F);
}

double mean_grey(const Image& image) {
  double sum = 0;
  const std::uint8_t* pixel = image.bytes.data();
  const std::int64_t count = image.height * image.width;
  for (std::int64_t i = 0; i < count; ++i, pixel += image.channels)
    sum += image.channels == 3 ? static_cast<double>(grey_of(pixel)) : *pixel;
  return sum / static_cast<double>(count);
}

struct Hsv {
  float hue;
  float saturation;
  float value;
};

Hsv to_hsv(float r, float g, float b) {
  const float most = std::max({r, g, b});
  const float least = std::min({r, g, b});
  if (most == least) return {0, 0, most};
  const float range = most - least;
  const float rc = (most - r) / range;
  const float gc = (most - g) / range;
  const float bc = (most - b) / range;
  const float sixths = most == r ? bc - gc : most == g ? rc + 2 - bc : gc + 4 - rc;
  return {std::fmod(sixths / 6 + 1, 1.0F), range / most, most};
}

std::array<float, 3> to_rgb(const Hsv& hsv) {
  const float sixths = hsv.hue * 6;
  const float whole = std::floor(sixths);
  const float f = sixths - whole;
  const float v = hsv.value;
  const float p = std::clamp((1 - hsv.saturation) * v, 0.0F, 1.0F);
  const float q = std::clamp((1 - hsv.saturation * f) * v, 0.0F, 1.0F);
  const float t = std::clamp((1 - hsv.saturation + hsv.saturation * f) * v, 0.0F, 1.0F);
  switch (static_cast<int>(whole) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

}  // namespace

void adjust_brightness(Image& image, double factor) {
  look_up(image, tabulate([&](int v) { return to_byte(static_cast<float>(v) * static_cast<float>(factor)); }));
}

void adjust_contrast(Image& image, double factor) {
  const auto ratio = static_cast<float>(factor);
  const auto rest = static_cast<float>((1 - factor) * static_cast<double>(static_cast<float>(mean_grey(image))));
  look_up(image, tabulate([&](int v) { return to_byte(static_cast<float>(v) * ratio + rest); }));
}

void adjust_saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  const auto ratio = static_cast<float>(factor);
  const auto rest = static_cast<float>(1 - factor);
  std::uint8_t* pixel = image.bytes.data();
  for (std::int64_t i = image.height * image.width; i > 0; --i, pixel += 3) {
    const float grey = rest * grey_of(pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = to_byte(static_cast<float>(pixel[c]) * ratio + grey);
  }
}

void adjust_hue(Image& image, double turn) {
  if (image.channels != 3) return;
  constexpr float kPerLevel = 1.0F / 255;
  constexpr float kLevels = 256 - 1e-3F;  // so that 1 becomes 255 and no level is rarer than others
  const auto shift = static_cast<float>(turn);
  std::uint8_t* pixel = image.bytes.data();
  for (std::int64_t i = image.height * image.width; i > 0; --i, pixel += 3) {
    Hsv hsv = to_hsv(static_cast<float>(pixel[0]) * kPerLevel, static_cast<float>(pixel[1]) * kPerLevel,
                     static_cast<float>(pixel[2]) * kPerLevel);
    hsv.hue += shift;
    hsv.hue -= std::floor(hsv.hue);
    const std::array<float, 3> rgb = to_rgb(hsv);
    for (std::size_t c = 0; c < 3; ++c) pixel[c] = static_cast<std::uint8_t>(rgb[c] * kLevels);
  }
}

void adjust_sharpness(Image& image, double factor, Image& spare) {
  if (image.height <= 2 || image.width <= 2) return;
  spare = image;
  const auto rest = static_cast<float>(1 - factor);
  const std::int64_t row = image.row_bytes();
  for (std::int64_t y = 1; y + 1 < image.height; ++y) {
    std::uint8_t* const out = image.row(y);
    const std::uint8_t* const in = spare.row(y);
    for (std::int64_t i = image.channels; i < row - image.channels; ++i) {
      int sum = 4 * in[i];
      for (const std::uint8_t* line : {in - row + i, in + i, in + row + i})
        sum += line[-image.channels] + line[0] + line[image.channels];
      const auto blurred = static_cast<float>((2 * sum + 13) / 26);  // sum / 13, rounded
      const auto value = static_cast<float>(in[i]);
      out[i] = to_byte(value + rest * (blurred - value));
    }
  }
}

void posterize(Image& image, int bits) {
  if (bits >= 8) return;
  const int mask = ((1 << bits) - 1) << (8 - bits);
  look_up(image, tabulate([&](int v) { return static_cast<std::uint8_t>(v & mask); }));
}

void solarize(Image& image, double threshold) {
  look_up(image, tabulate([&](int v) { return static_cast<std::uint8_t>(v >= threshold ? 255 - v : v); }));
}

void autocontrast(Image& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const Histogram counts = histogram(image, c);
    const auto used = [](std::int64_t count) { return count > 0; };
    const auto least = static_cast<float>(std::find_if(counts.begin(), counts.end(), used) - counts.begin());
    const auto most = static_cast<float>(255 - (std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin()));
    if (least == most) continue;
    const float unit = (most - least) * static_cast<float>(1.0 / 255);
    look_up(image, tabulate([&](int v) { return to_byte((static_cast<float>(v) - least) / unit); }), c);
  }
}

void equalize(Image& image) {
  for (std::int64_t c = 0; c < image.channels; ++c) {
    const Histogram counts = histogram(image, c);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::int64_t count) { return count > 0; });
    const std::int64_t step = (image.height * image.width - *last) / 255;
    if (step == 0) continue;
    std::int64_t below = 0;
    look_up(image, tabulate([&](int v) {
              const std::int64_t level = v == 0 ? 0 : std::min<std::int64_t>((below + step / 2) / step, 255);
              below += counts[static_cast<std::size_t>(v)];
              return static_cast<std::uint8_t>(level);
            }),
            c);
  }
}

void invert(Image& image) {
  look_up(image, tabulate([](int v) { return static_cast<std::uint8_t>(255 - v); }));
}

void apply(AugmentOp op, double magnitude, const Warp& how, Image& image, Image& spare) {
  // Shears are about the top left corner: the middle of the image as torchvision's warp measures from it.
  const double half_width = 0.5 * static_cast<double>(image.width);
  const double half_height = 0.5 * static_cast<double>(image.height);
  switch (op) {
    case AugmentOp::identity:
      return;
    case AugmentOp::shear_x:
      return warp(image, {1, magnitude, magnitude * half_height, 0, 1, 0}, how, spare);
    case AugmentOp::shear_y:
      return warp(image, {1, 0, 0, magnitude, 1, magnitude * half_width}, how, spare);
    case AugmentOp::translate_x:
      return warp(image, {1, 0, -std::trunc(magnitude), 0, 1, 0}, how, spare);
    case AugmentOp::translate_y:
      return warp(image, {1, 0, 0, 0, 1, -std::trunc(magnitude)}, how, spare);
    case AugmentOp::rotate: {
      const double angle = magnitude * std::numbers::pi / 180;
      return warp(image, {std::cos(angle), -std::sin(angle), 0, std::sin(angle), std::cos(angle), 0}, how, spare);
    }
    case AugmentOp::brightness:
      return adjust_brightness(image, 1 + magnitude);
    case AugmentOp::color:
      return adjust_saturation(image, 1 + magnitude);
    case AugmentOp::contrast:
      return adjust_contrast(image, 1 + magnitude);
    case AugmentOp::sharpness:
      return adjust_sharpness(image, 1 + magnitude, spare);
    case AugmentOp::posterize:
      return posterize(image, static_cast<int>(magnitude));
    case AugmentOp::solarize:
      return solarize(image, 255 * magnitude);
    case AugmentOp::auto_contrast:
      return autocontrast(image);
    case AugmentOp::equalize:
      return equalize(image);
    case AugmentOp::invert:
      return invert(image);
  }
  throw std::logic_error("unknown augmentation");
}

}  // namespace trainctl::dataset

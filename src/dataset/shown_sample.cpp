#include "dataset/shown_sample.h"

#include <png.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base64.h"
#include "core/error.h"
#include "core/text.h"
#include "dataset/image/codec/class_mask.h"
#include "dataset/image/codec/decode.h"
#include "dataset/image/transform/resample.h"
#include "dataset/table/table_encoding.h"

namespace trainctl::dataset {
namespace {

constexpr std::int64_t kLongestSide = 160;
constexpr std::int64_t kLongestSideOfPng = 64;
constexpr int kJpegQuality = 85;

/// Returns the mean and standard deviation that the transforms of evaluation normalize by.
NormalizeConfig normalization_of(const DatasetConfig& config) {
  for (const TransformConfig& transform : config.eval_transforms ? *config.eval_transforms : config.transforms)
    if (const auto* normalize = transform.get_if<NormalizeConfig>()) return *normalize;
  return {.mean = {0}, .std = {1}};
}

Image bytes_of(const at::Tensor& image, const NormalizeConfig& normalization) {
  const at::Tensor values = image.to(at::kFloat).contiguous();
  const auto of_channel = [](const std::vector<double>& list, std::int64_t channel) {
    return static_cast<float>(list[std::min(static_cast<std::size_t>(channel), list.size() - 1)]);
  };
  Image bytes;
  bytes.resize(values.size(1), values.size(2), values.size(0));
  const float* from = values.const_data_ptr<float>();
  for (std::int64_t channel = 0; channel < bytes.channels; ++channel) {
    const float scale = of_channel(normalization.std, channel);
    const float mean = of_channel(normalization.mean, channel);
    for (std::int64_t i = 0; i < bytes.height * bytes.width; ++i) {
      const float level = std::round(255 * (*from++ * scale + mean));
      bytes.bytes[static_cast<std::size_t>(i * bytes.channels + channel)] =
          static_cast<std::uint8_t>(std::clamp(std::isfinite(level) ? level : 0.0F, 0.0F, 255.0F));
    }
  }
  return bytes;
}

/// Spreads grey over three channels, which resizing takes.
Image spread(const Image& grey) {
  Image color;
  color.resize(grey.height, grey.width);
  for (std::size_t i = 0; i < color.size(); ++i) color.bytes[i] = grey.bytes[i / 3];
  return color;
}

Image limited_size(Image image) {
  const std::int64_t longest = std::max(image.height, image.width);
  if (longest <= kLongestSide) return image;
  const auto side = [&](std::int64_t length) { return std::max<std::int64_t>(1, length * kLongestSide / longest); };
  if (image.channels == 1) image = spread(image);
  return resize(image, side(image.height), side(image.width));
}

std::string png_of(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, image.bytes.data(), 0, nullptr) == 0)
    throw core::Error(std::string("cannot draw a sample: ") + header.message);
  bytes.resize(size);
  return bytes;
}

std::string date_of(double days) {
  constexpr double kFloatError = 2e-3;  // of a scaled float, in days
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{static_cast<int>(std::floor(days + kFloatError))}}};
  std::string text = std::to_string(static_cast<int>(date.year()));
  for (const unsigned part : {static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day())})
    text += (part < 10 ? "-0" : "-") + std::to_string(part);
  return text;
}

/// Returns the number whose piecewise linear encoding these inputs are.
double number_in_bins(const float* inputs, const std::vector<double>& edges) {
  const std::size_t num_bins = edges.size() - 1;
  std::size_t bin = num_bins - 1;
  while (bin > 0 && inputs[bin] <= 0) --bin;
  return edges[bin] + static_cast<double>(inputs[bin]) * (edges[bin + 1] - edges[bin]);
}

std::string category_of(const ColumnEncoding& column, const float* inputs) {
  const float* const found = std::max_element(inputs, inputs + column.width());
  if (*found <= 0) return "not seen in training";
  const auto index = static_cast<std::size_t>(found - inputs);
  return index < column.categories.size() ? column.categories[index] : "other";
}

std::string cell_of(const ColumnEncoding& column, const float* inputs) {
  if (column.kind == ColumnKind::category) return category_of(column, inputs);
  if (!column.bin_edges.empty()) return core::format_digits(number_in_bins(inputs, column.bin_edges), 6);
  const double value = static_cast<double>(inputs[0]) / column.scale + column.mean;
  return column.kind == ColumnKind::date ? date_of(value) : core::format_digits(value, 6);
}

/// Mixes the color of a class into a pixel, half and half.
void blend(const MaskColor& color, std::uint8_t* pixel) {
  for (const std::uint8_t level : {color.red, color.green, color.blue}) {
    *pixel = static_cast<std::uint8_t>((*pixel + level + 1) / 2);
    ++pixel;
  }
}

/// Returns a data URI.
std::string drawing_of(Image image) {
  const Image drawn = limited_size(std::move(image));
  if (std::max(drawn.height, drawn.width) <= kLongestSideOfPng)
    return "data:image/png;base64," + core::base64(png_of(drawn));
  const std::vector<std::byte> bytes = encode_jpeg(drawn, kJpegQuality);
  return "data:image/jpeg;base64," + core::base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

std::string picture_of(const at::Tensor& image, const DatasetConfig& config) {
  if (image.dim() != 3 || (image.size(0) != 1 && image.size(0) != 3)) return "";
  return drawing_of(bytes_of(image, normalization_of(config)));
}

std::string masked_picture_of(const at::Tensor& image, const at::Tensor& classes, const DatasetConfig& config) {
  Image drawn = bytes_of(image, normalization_of(config));
  const at::Tensor numbers = classes.contiguous();
  for (std::int64_t i = 0; i < numbers.numel(); ++i)
    if (const std::int64_t number = numbers.const_data_ptr<std::int64_t>()[i]; number >= 0)
      blend(color_of_class(static_cast<std::uint8_t>(number)), drawn.bytes.data() + 3 * i);
  return drawing_of(std::move(drawn));
}

std::string mask_file_of(const at::Tensor& classes) {
  const at::Tensor numbers = classes.contiguous();
  const auto* const begin = numbers.const_data_ptr<std::uint8_t>();
  const std::vector<std::byte> bytes = encode_class_mask(
      {.height = numbers.size(0), .width = numbers.size(1), .classes = {begin, begin + numbers.numel()}});
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::pair<std::string, std::string>> columns_of(const at::Tensor& inputs, const SampleSpec& spec) {
  std::vector<std::pair<std::string, std::string>> columns;
  if (spec.table == nullptr || inputs.numel() != spec.table->width()) return columns;
  const at::Tensor values = inputs.to(at::kFloat).contiguous();
  const float* next = values.const_data_ptr<float>();
  for (const ColumnEncoding& column : spec.table->columns) {
    columns.emplace_back(column.name, cell_of(column, next));
    next += column.width();
  }
  return columns;
}

}  // namespace trainctl::dataset

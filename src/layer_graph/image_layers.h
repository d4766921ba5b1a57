// Layers of a list that slide over images. Part of layer_graph/config.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/field.h"

namespace trainctl::layer_graph {

struct Conv2dLayer {
  static constexpr std::string_view kind = "conv2d";
  config::AutoOr<std::int64_t> channels;
  std::int64_t kernel_size = 3;
  std::int64_t stride = 1;
  config::AutoOr<std::int64_t> padding;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;

  static constexpr auto fields() {
    using config::field;
    using C = Conv2dLayer;
    return config::Fields{
        field<&C::channels>("Output channels; `auto`: as many as the data has classes.",
                            config::required & config::at_least(1)),
        field<&C::kernel_size>("Side of the kernel.", config::between(1, 255)),
        field<&C::stride>("Step of the kernel, in pixels.", config::between(1, 255)),
        field<&C::padding>("Zeros around the image; `auto` is dilation (kernel_size - 1) / 2, which keeps the size at "
                           "stride 1.",
                           config::between(0, 255)),
        field<&C::dilation>("Distance of the pixels that a kernel reads.", config::between(1, 255)),
        field<&C::groups>("Parts of the channels that don't see each other.", config::at_least(1)),
        field<&C::bias>("Add a bias; leave it out before a batch_norm."),
    };
  }
};

struct DepthwiseConv2dLayer {
  static constexpr std::string_view kind = "depthwise_conv2d";
  std::int64_t kernel_size = 3;
  std::int64_t stride = 1;
  config::AutoOr<std::int64_t> padding;
  std::int64_t dilation = 1;
  bool bias = true;

  static constexpr auto fields() {
    using config::field;
    using C = DepthwiseConv2dLayer;
    return config::Fields{
        field<&C::kernel_size>("Side of the kernel, one for each channel.", config::between(1, 255)),
        field<&C::stride>("Step of the kernel, in pixels.", config::between(1, 255)),
        field<&C::padding>("Zeros around the image; `auto` is dilation (kernel_size - 1) / 2.",
                           config::between(0, 255)),
        field<&C::dilation>("Distance of the pixels that a kernel reads.", config::between(1, 255)),
        field<&C::bias>("Add a bias; leave it out before a batch_norm."),
    };
  }
};

struct ConvTranspose2dLayer {
  static constexpr std::string_view kind = "conv_transpose2d";
  config::AutoOr<std::int64_t> channels;
  std::int64_t kernel_size = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
  std::int64_t output_padding = 0;
  bool bias = true;

  static constexpr auto fields() {
    using config::field;
    using C = ConvTranspose2dLayer;
    return config::Fields{
        field<&C::channels>("Output channels; `auto`: as many as the data has classes.",
                            config::required & config::at_least(1)),
        field<&C::kernel_size>("Side of the kernel.", config::between(1, 255)),
        field<&C::stride>("Factor by which the image grows.", config::between(1, 255)),
        field<&C::padding>("Pixels that are cut from each side.", config::between(0, 255)),
        field<&C::output_padding>("Rows and columns that are added at the end; below stride.", config::between(0, 255)),
        field<&C::bias>("Add a bias."),
    };
  }
};

struct MaxPoolLayer {
  static constexpr std::string_view kind = "max_pool";
  std::int64_t kernel_size = 2;
  config::AutoOr<std::int64_t> stride;
  std::int64_t padding = 0;
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&MaxPoolLayer::kernel_size>("Side of the window.", config::between(1, 255)),
        field<&MaxPoolLayer::stride>("Step of the window; `auto` is kernel_size.", config::between(1, 255)),
        field<&MaxPoolLayer::padding>("Pixels around the image; at most half of kernel_size.", config::between(0, 127)),
    };
  }
};

struct AvgPoolLayer {
  static constexpr std::string_view kind = "avg_pool";
  std::int64_t kernel_size = 2;
  config::AutoOr<std::int64_t> stride;
  std::int64_t padding = 0;
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&AvgPoolLayer::kernel_size>("Side of the window.", config::between(1, 255)),
        field<&AvgPoolLayer::stride>("Step of the window; `auto` is kernel_size.", config::between(1, 255)),
        field<&AvgPoolLayer::padding>("Zeros around the image, which count; at most half of kernel_size.",
                                      config::between(0, 127)),
    };
  }
};

struct GlobalAvgPoolLayer {
  static constexpr std::string_view kind = "global_avg_pool";
  bool keep_dims = false;
  static constexpr auto fields() {
    return config::Fields{config::field<&GlobalAvgPoolLayer::keep_dims>(
        "Give an image of one pixel instead of a row: what squeeze-and-excitation multiplies by.")};
  }
};

enum class UpsampleMode { nearest, bilinear };

struct UpsampleLayer {
  static constexpr std::string_view kind = "upsample";
  std::int64_t scale_factor = 2;
  UpsampleMode mode = UpsampleMode::nearest;
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&UpsampleLayer::scale_factor>("Factor by which height and width grow.", config::between(1, 64)),
        field<&UpsampleLayer::mode>("How new pixels are found; `bilinear` doesn't align corners."),
    };
  }
};

}  // namespace trainctl::layer_graph

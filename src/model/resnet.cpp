// ResNet (https://arxiv.org/abs/1512.03385) with torchvision's names, initialization and order of operations, so
// checkpoints convert in both directions.
#include <array>

#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/linear.h"
#include "model/layers/pooling.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

struct ResNetBlockSpec {
  std::int64_t in_channels;
  std::int64_t width;  // width of the 3×3 convolutions
  std::int64_t stride;
  double last_norm_weight;
};

/// Shortcut that projects a block's input to the shape of the result.
class Shortcut final : public UnaryLayer {
 public:
  Shortcut(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride)
      : convolution_(child<Convolution>("0", ConvolutionSpec{in_channels, out_channels, 1, stride})),
        norm_(child<BatchNorm>("1", out_channels)) {}

  at::Tensor compute(const at::Tensor& input) override { return norm_.forward(convolution_.forward(input)); }
  double flops(const ImageShape& input) const { return convolution_.flops(input); }

 private:
  Convolution& convolution_;
  BatchNorm& norm_;
};

/// Block of two 3×3 convolutions.
class BasicBlock final : public UnaryLayer {
 public:
  static constexpr std::int64_t kExpansion = 1;

  explicit BasicBlock(const ResNetBlockSpec& spec)
      : conv1_(child<Convolution>("conv1", ConvolutionSpec{spec.in_channels, spec.width, 3, spec.stride})),
        bn1_(child<BatchNorm>("bn1", spec.width)),
        conv2_(child<Convolution>("conv2", ConvolutionSpec{spec.width, spec.width, 3})),
        bn2_(child<BatchNorm>("bn2", spec.width, spec.last_norm_weight)),
        shortcut_(spec.stride == 1 && spec.in_channels == spec.width
                      ? nullptr
                      : &child<Shortcut>("downsample", spec.in_channels, spec.width, spec.stride)) {}

  at::Tensor compute(const at::Tensor& input) override {
    const at::Tensor value = conv2_.forward(bn1_.forward_relu(conv1_.forward(input)));
    return bn2_.forward_relu(value, shortcut_ == nullptr ? input : shortcut_->forward(input));
  }

  ImageShape output_shape(const ImageShape& input) const { return conv1_.output_shape(input); }
  double flops(const ImageShape& input) const {
    return conv1_.flops(input) + conv2_.flops(conv1_.output_shape(input)) +
           (shortcut_ == nullptr ? 0 : shortcut_->flops(input));
  }

 private:
  Convolution& conv1_;
  BatchNorm& bn1_;
  Convolution& conv2_;
  BatchNorm& bn2_;
  Shortcut* shortcut_;
};

/// Block of 1×1, 3×3 (with the stride) and 1×1 convolutions; the last one has four times the width.
class Bottleneck final : public UnaryLayer {
 public:
  static constexpr std::int64_t kExpansion = 4;

  explicit Bottleneck(const ResNetBlockSpec& spec)
      : conv1_(child<Convolution>("conv1", ConvolutionSpec{spec.in_channels, spec.width, 1})),
        bn1_(child<BatchNorm>("bn1", spec.width)),
        conv2_(child<Convolution>("conv2", ConvolutionSpec{spec.width, spec.width, 3, spec.stride})),
        bn2_(child<BatchNorm>("bn2", spec.width)),
        conv3_(child<Convolution>("conv3", ConvolutionSpec{spec.width, spec.width * kExpansion, 1})),
        bn3_(child<BatchNorm>("bn3", spec.width * kExpansion, spec.last_norm_weight)),
        shortcut_(spec.stride == 1 && spec.in_channels == spec.width * kExpansion
                      ? nullptr
                      : &child<Shortcut>("downsample", spec.in_channels, spec.width * kExpansion, spec.stride)) {}

  at::Tensor compute(const at::Tensor& input) override {
    at::Tensor value = bn1_.forward_relu(conv1_.forward(input));
    value = conv3_.forward(bn2_.forward_relu(conv2_.forward(value)));
    return bn3_.forward_relu(value, shortcut_ == nullptr ? input : shortcut_->forward(input));
  }

  ImageShape output_shape(const ImageShape& input) const { return conv3_.output_shape(conv2_.output_shape(input)); }
  double flops(const ImageShape& input) const {
    const ImageShape inner = conv1_.output_shape(input);
    return conv1_.flops(input) + conv2_.flops(inner) + conv3_.flops(conv2_.output_shape(inner)) +
           (shortcut_ == nullptr ? 0 : shortcut_->flops(input));
  }

 private:
  Convolution& conv1_;
  BatchNorm& bn1_;
  Convolution& conv2_;
  BatchNorm& bn2_;
  Convolution& conv3_;
  BatchNorm& bn3_;
  Shortcut* shortcut_;
};

class Stem final : public UnaryLayer {
 public:
  Stem(std::int64_t in_channels, ResNetStem kind)
      : kind_(kind),
        conv1_(child<Convolution>("conv1", kind == ResNetStem::imagenet ? ConvolutionSpec{in_channels, 64, 7, 2}
                                                                        : ConvolutionSpec{in_channels, 64, 3})),
        bn1_(child<BatchNorm>("bn1", 64)) {}

  at::Tensor compute(const at::Tensor& input) override {
    const at::Tensor value = conv1_.forward(input);
    if (kind_ != ResNetStem::imagenet) return bn1_.forward_relu(value);
    // max(relu(x)) = relu(max(x)), gradients included; pooling first leaves ReLU a quarter of the values.
    return relu_of_max_pool_3x3_stride2(bn1_.forward(value));
  }

  ImageShape output_shape(const ImageShape& input) const {
    const ImageShape shape = conv1_.output_shape(input);
    return kind_ == ResNetStem::imagenet ? max_pool_3x3_stride2_shape(shape) : shape;
  }
  double flops(const ImageShape& input) const { return conv1_.flops(input); }

 private:
  ResNetStem kind_;
  Convolution& conv1_;
  BatchNorm& bn1_;
};

class ResNetHead final : public UnaryLayer {
 public:
  ResNetHead(std::int64_t features, std::int64_t num_classes) : fc_(child<Linear>("fc", features, num_classes)) {}
  at::Tensor compute(const at::Tensor& input) override { return fc_.forward(global_average_pool(input)); }
  double flops() const { return fc_.flops(); }

 private:
  Linear& fc_;
};

struct ResNetSpec {
  std::array<int, 4> num_blocks;
  ResNetStem stem;
  double last_norm_weight;
  std::int64_t num_classes;
};

template <class ResidualBlock>
class ResNet final : public Model {
 public:
  ResNet(const ResNetSpec& spec, ImageShape shape) {
    auto& stem = child<Stem>("", shape.channels, spec.stem);  // torchvision's names have no prefix here
    add_block("stem", stem);
    flops_ += stem.flops(shape);
    shape = stem.output_shape(shape);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      for (int i = 0; i < spec.num_blocks[stage]; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        auto& block = child<ResidualBlock>(name, ResNetBlockSpec{.in_channels = shape.channels,
                                                                 .width = width,
                                                                 .stride = stage > 0 && i == 0 ? 2 : 1,
                                                                 .last_norm_weight = spec.last_norm_weight});
        add_block(name, block);
        flops_ += block.flops(shape);
        shape = block.output_shape(shape);
      }
    }
    auto& head = child<ResNetHead>("", shape.channels, spec.num_classes);
    add_block("head", head);
    flops_ += head.flops();
  }

  double flops_per_sample() const override { return flops_; }
  bool prefers_channels_last() const override { return true; }

 private:
  double flops_ = 0;
};

constexpr std::array<int, 4> num_blocks(int depth) {
  switch (depth) {
    case 18:
      return {2, 2, 2, 2};
    case 34:
      return {3, 4, 6, 3};
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    default:
      return {3, 8, 36, 3};
  }
}

}  // namespace

template <int Depth>
std::unique_ptr<Model> build(const ResNetConfig<Depth>& config, const InputSpec& input) {
  const ResNetSpec spec{.num_blocks = num_blocks(Depth),
                        .stem = config.stem,
                        .last_norm_weight = config.zero_init_residual ? 0.0 : 1.0,
                        .num_classes = num_outputs(config.num_classes, input)};
  const ImageShape shape = image_shape(input, ResNetConfig<Depth>::kind);
  if constexpr (Depth < 50)
    return std::make_unique<ResNet<BasicBlock>>(spec, shape);
  else
    return std::make_unique<ResNet<Bottleneck>>(spec, shape);
}

template std::unique_ptr<Model> build(const ResNetConfig<18>&, const InputSpec&);
template std::unique_ptr<Model> build(const ResNetConfig<34>&, const InputSpec&);
template std::unique_ptr<Model> build(const ResNetConfig<50>&, const InputSpec&);
template std::unique_ptr<Model> build(const ResNetConfig<101>&, const InputSpec&);
template std::unique_ptr<Model> build(const ResNetConfig<152>&, const InputSpec&);

}  // namespace trainctl::model

// Pre-activation residual network of https://arxiv.org/abs/1605.07146: BatchNorm and ReLU precede each convolution.
#include "core/error.h"
#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/dropout.h"
#include "model/layers/linear.h"
#include "model/layers/pooling.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

struct WideResNetBlockSpec {
  std::int64_t in_channels;
  std::int64_t out_channels;
  std::int64_t stride;
  double dropout;
};

class WideBlock final : public UnaryLayer {
 public:
  explicit WideBlock(const WideResNetBlockSpec& spec)
      : bn1_(child<BatchNorm>("bn1", spec.in_channels)),
        conv1_(child<Convolution>("conv1", ConvolutionSpec{spec.in_channels, spec.out_channels, 3, spec.stride})),
        bn2_(child<BatchNorm>("bn2", spec.out_channels)),
        dropout_(child<Dropout>("dropout", spec.dropout)),
        conv2_(child<Convolution>("conv2", ConvolutionSpec{spec.out_channels, spec.out_channels, 3})),
        shortcut_(spec.in_channels == spec.out_channels && spec.stride == 1
                      ? nullptr
                      : &child<Convolution>("shortcut",
                                            ConvolutionSpec{spec.in_channels, spec.out_channels, 1, spec.stride})) {}

  at::Tensor compute(const at::Tensor& input) override {
    const at::Tensor activated = bn1_.forward_relu(input);
    at::Tensor value = bn2_.forward_relu(conv1_.forward(activated));
    value = conv2_.forward(dropout_.forward(value));
    // If the shape changes, the shortcut starts from the activated input.
    return value.add_(shortcut_ == nullptr ? input : shortcut_->forward(activated));
  }

  ImageShape output_shape(const ImageShape& input) const { return conv1_.output_shape(input); }
  double flops(const ImageShape& input) const {
    return conv1_.flops(input) + conv2_.flops(conv1_.output_shape(input)) +
           (shortcut_ == nullptr ? 0 : shortcut_->flops(input));
  }

 private:
  BatchNorm& bn1_;
  Convolution& conv1_;
  BatchNorm& bn2_;
  Dropout& dropout_;
  Convolution& conv2_;
  Convolution* shortcut_;
};

/// Head of the final BatchNorm and ReLU, the mean over pixels and the output layer.
class WideResNetHead final : public UnaryLayer {
 public:
  WideResNetHead(std::int64_t features, std::int64_t num_classes)
      : bn_(child<BatchNorm>("bn", features)), fc_(child<Linear>("fc", features, num_classes)) {}
  at::Tensor compute(const at::Tensor& input) override {
    return fc_.forward(global_average_pool(bn_.forward_relu(input)));
  }
  double flops() const { return fc_.flops(); }

 private:
  BatchNorm& bn_;
  Linear& fc_;
};

class WideResNet final : public Model {
 public:
  WideResNet(const WideResNetConfig& config, const InputSpec& input) {
    if (config.depth < 10 || config.depth % 6 != 4)
      throw core::Error("model.depth is " + std::to_string(config.depth) + ", but a wide_resnet has 6 n + 4 layers")
          .hint("10, 16, 22, 28, 34 or 40");
    if (config.widen_factor < 1) throw core::Error("model.widen_factor must be at least 1");
    ImageShape shape = image_shape(input, WideResNetConfig::kind);
    auto& stem = child<Convolution>("conv1", ConvolutionSpec{shape.channels, 16, 3});
    add_block("conv1", stem);
    flops_ += stem.flops(shape);
    shape = stem.output_shape(shape);
    for (int stage = 0; stage < 3; ++stage) {
      for (std::int64_t i = 0; i < (config.depth - 4) / 6; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        auto& block = child<WideBlock>(name, WideResNetBlockSpec{.in_channels = shape.channels,
                                                                 .out_channels = (16 << stage) * config.widen_factor,
                                                                 .stride = stage > 0 && i == 0 ? 2 : 1,
                                                                 .dropout = config.dropout});
        add_block(name, block);
        flops_ += block.flops(shape);
        shape = block.output_shape(shape);
      }
    }
    auto& head = child<WideResNetHead>("", shape.channels, num_outputs(config.num_classes, input));
    add_block("head", head);
    flops_ += head.flops();
  }

  double flops_per_sample() const override { return flops_; }
  bool prefers_channels_last() const override { return true; }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const WideResNetConfig& config, const InputSpec& input) {
  return std::make_unique<WideResNet>(config, input);
}

}  // namespace trainctl::model

#include "core/error.h"
#include "model/layers/activation.h"
#include "model/layers/batch_norm.h"
#include "model/layers/convolution.h"
#include "model/layers/dropout.h"
#include "model/layers/linear.h"
#include "model/layers/pooling.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

enum class Pool { none, max_2x2 };

/// Block of convolution, optional BatchNorm, optional pooling and ReLU.
class ConvolutionBlock final : public UnaryLayer {
 public:
  ConvolutionBlock(const ConvolutionSpec& spec, Pool pool)
      : convolution_(child<Convolution>("conv", spec)),
        norm_(spec.bias == Bias::none ? &child<BatchNorm>("bn", spec.out_channels) : nullptr),
        pool_(pool) {}

  at::Tensor compute(const at::Tensor& input) override {
    at::Tensor value = convolution_.forward(input);
    if (norm_ != nullptr && pool_ == Pool::none) return norm_->forward_relu(value);
    if (norm_ != nullptr) value = norm_->forward(value);
    // max(relu(x)) = relu(max(x)), gradients included; pooling first leaves ReLU a quarter of the values.
    return pool_ == Pool::max_2x2 ? relu_of_max_pool_2x2(value) : relu_in_place(value);
  }

  ImageShape output_shape(const ImageShape& input) const {
    const ImageShape shape = convolution_.output_shape(input);
    return pool_ == Pool::none ? shape : max_pool_2x2_shape(shape);
  }
  double flops(const ImageShape& input) const { return convolution_.flops(input); }

 private:
  Convolution& convolution_;
  BatchNorm* norm_;
  Pool pool_;
};

/// Head of flattening, an optional hidden layer with ReLU, dropout and the output layer.
class Head final : public UnaryLayer {
 public:
  Head(const CnnConfig& config, std::int64_t features, std::int64_t num_classes)
      : hidden_(config.hidden == 0 ? nullptr : &child<Linear>("hidden", features, config.hidden)),
        dropout_(child<Dropout>("dropout", config.dropout)),
        output_(child<Linear>("fc", config.hidden == 0 ? features : config.hidden, num_classes)) {}

  at::Tensor compute(const at::Tensor& input) override {
    at::Tensor value = input.flatten(1);
    if (hidden_ != nullptr) value = relu_in_place(hidden_->forward(value));
    return output_.forward(dropout_.forward(value));
  }
  double flops() const { return (hidden_ == nullptr ? 0 : hidden_->flops()) + output_.flops(); }

 private:
  Linear* hidden_;
  Dropout& dropout_;
  Linear& output_;
};

void check(const CnnConfig& config) {
  if (config.channels.empty()) throw core::Error("model.channels is empty; expected at least one convolution");
  if (config.kernel_size % 2 == 0)
    throw core::Error("model.kernel_size is " + std::to_string(config.kernel_size) +
                      ", but only odd kernels keep the image's size");
  if (config.num_pools.value_or(0) > static_cast<std::int64_t>(config.channels.size()))
    throw core::Error("model.num_pools is " + std::to_string(*config.num_pools) + ", but there are only " +
                      std::to_string(config.channels.size()) + " convolutions to pool after");
  if (config.hidden < 0) throw core::Error("model.hidden is " + std::to_string(config.hidden) + "; expected 0 or more");
}

class Cnn final : public Model {
 public:
  Cnn(const CnnConfig& config, const InputSpec& input) {
    check(config);
    const auto num_layers = static_cast<std::int64_t>(config.channels.size());
    const std::int64_t first_pool = num_layers - config.num_pools.value_or(num_layers);
    ImageShape shape = image_shape(input, CnnConfig::kind);
    for (std::int64_t i = 0; i < num_layers; ++i) {
      const std::string name = "layer" + std::to_string(i + 1);
      const ConvolutionSpec spec{.in_channels = shape.channels,
                                 .out_channels = config.channels[static_cast<std::size_t>(i)],
                                 .kernel_size = config.kernel_size,
                                 .bias = config.batch_norm ? Bias::none : Bias::learned,
                                 .init = ConvolutionInit::uniform_fan_in};
      auto& block = child<ConvolutionBlock>(name, spec, i < first_pool ? Pool::none : Pool::max_2x2);
      add_block(name, block);
      flops_ += block.flops(shape);
      shape = block.output_shape(shape);
      if (shape.pixels() == 0)
        throw core::Error("images of " + ImageShape{input.shape[0], input.shape[1], input.shape[2]}.text() +
                          " are too small: nothing is left after the pool of convolution " + std::to_string(i + 1))
            .hint("a smaller model.num_pools");
    }
    auto& head = child<Head>("head", config, shape.size(), num_outputs(config.num_classes, input));
    add_block("head", head);
    flops_ += head.flops();
  }

  double flops_per_sample() const override { return flops_; }
  bool prefers_channels_last() const override { return true; }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const CnnConfig& config, const InputSpec& input) {
  return std::make_unique<Cnn>(config, input);
}

}  // namespace trainctl::model

#include "core/error.h"
#include "model/layers/activation.h"
#include "model/layers/dropout.h"
#include "model/layers/linear.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

/// Hidden layer of linear, ReLU and dropout. The first one flattens images.
class HiddenLayer final : public UnaryLayer {
 public:
  HiddenLayer(std::int64_t in_features, std::int64_t out_features, double dropout)
      : linear_(child<Linear>("linear", in_features, out_features)), dropout_(child<Dropout>("dropout", dropout)) {}

  at::Tensor compute(const at::Tensor& input) override {
    return dropout_.forward(relu_in_place(linear_.forward(input.flatten(1))));
  }
  double flops() const { return linear_.flops(); }

 private:
  Linear& linear_;
  Dropout& dropout_;
};

class OutputLayer final : public UnaryLayer {
 public:
  OutputLayer(std::int64_t in_features, std::int64_t num_classes)
      : linear_(child<Linear>("linear", in_features, num_classes)) {}
  at::Tensor compute(const at::Tensor& input) override { return linear_.forward(input.flatten(1)); }
  double flops() const { return linear_.flops(); }

 private:
  Linear& linear_;
};

class Mlp final : public Model {
 public:
  Mlp(const MlpConfig& config, const InputSpec& input) {
    const bool rows = input.shape.size() == 1 && input.vocab_size == 0;  // rows of numbers from a table
    std::int64_t features = rows ? input.shape[0] : image_shape(input, MlpConfig::kind).size();
    for (std::size_t i = 0; i < config.hidden.size(); ++i) {
      if (config.hidden[i] < 1)
        throw core::Error("model.hidden[" + std::to_string(i) + "] is " + std::to_string(config.hidden[i]) +
                          "; expected at least 1 unit");
      const std::string name = "hidden" + std::to_string(i + 1);
      auto& layer = child<HiddenLayer>(name, features, config.hidden[i], config.dropout);
      add_block(name, layer);
      flops_ += layer.flops();
      features = config.hidden[i];
    }
    auto& head = child<OutputLayer>("head", features, num_outputs(config.num_classes, input));
    add_block("head", head);
    flops_ += head.flops();
  }

  double flops_per_sample() const override { return flops_; }
  bool prefers_channels_last() const override { return false; }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const MlpConfig& config, const InputSpec& input) {
  return std::make_unique<Mlp>(config, input);
}

}  // namespace trainctl::model

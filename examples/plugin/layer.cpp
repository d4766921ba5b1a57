// A layer of `model: {kind: layers}`: {kind: squared_relu} (https://arxiv.org/abs/2109.08668), by this plug-in's
// operator.
#include "model/layer.h"
#include "example.h"

namespace example {
namespace {

using namespace trainctl;

struct SquaredReluLayer {
  static constexpr std::string_view kind = "squared_relu";
  double scale = 1;

  static constexpr auto fields() {
    return config::Fields{config::field<&SquaredReluLayer::scale>("Factor of the output.", config::positive)};
  }
  layer_graph::LayerOutput output_of(const layer_graph::Shape& input) const {
    if (input.form == layer_graph::Form::ids) return "numbers";
    return input;
  }
  double flops(const layer_graph::Shape&) const { return 0; }  // of products and convolutions alone
};

class SquaredRelu final : public model::UnaryLayer {
 public:
  explicit SquaredRelu(double scale) : scale_(scale) {}
  at::Tensor compute(const at::Tensor& input) override { return squared_relu(input, scale_); }

 private:
  double scale_;
};

std::unique_ptr<model::UnaryLayer> build(const SquaredReluLayer& config, const layer_graph::Shape&) {
  return std::make_unique<SquaredRelu>(config.scale);
}

}  // namespace

void add_layer(plugin::Registry& registry) {
  registry.add_layer<SquaredReluLayer>();
}

}  // namespace example

#include "model/layers/shared_input.h"

namespace trainctl::model {

std::vector<at::Tensor> forward_each(const std::vector<UnaryLayer*>& layers, const at::Tensor& input) {
  std::vector<at::Tensor> outputs;
  if (auto* sharing = dynamic_cast<SharesInput*>(layers[0]->stand_in())) {
    const LayerSpan span(*layers[0]);
    outputs = sharing->compute_each(layers, input);
  }
  if (outputs.empty())
    for (UnaryLayer* layer : layers) outputs.push_back(layer->forward(input));
  return outputs;
}

}  // namespace trainctl::model

#include "model/layers/shared_input.h"

#include "kernels/matrix_product.h"
#include "model/layers/low_rank.h"

namespace trainctl::model {
namespace {

/// Returns the layers if each is a plain product; else nothing.
std::vector<const MatrixLayer*> plain_products(const std::vector<UnaryLayer*>& layers) {
  std::vector<const MatrixLayer*> products;
  for (const UnaryLayer* layer : layers) {
    const auto* product = dynamic_cast<const MatrixLayer*>(layer);
    if (product == nullptr || !product->is_plain_product()) return {};
    products.push_back(product);
  }
  return products;
}

}  // namespace

std::vector<at::Tensor> forward_each(const std::vector<UnaryLayer*>& layers, const at::Tensor& input) {
  std::vector<at::Tensor> outputs;
  if (auto* sharing = dynamic_cast<SharesInput*>(layers[0]->stand_in())) {
    const LayerSpan span(*layers[0]);
    outputs = sharing->compute_each(layers, input);
  }
  if (!outputs.empty()) return outputs;
  if (kernels::shares_input_gradient(input))
    if (const auto products = plain_products(layers); !products.empty())
      return MatrixLayer::forward_together(products, input);
  for (UnaryLayer* layer : layers) outputs.push_back(layer->forward(input));
  return outputs;
}

}  // namespace trainctl::model

#include "model/layers/lstm_operator.h"

#include <cmath>
#include <string>

#include "machine/cpu.h"

namespace trainctl::model {

bool onednn_has_lstm_of(at::ScalarType dtype) {
  const machine::CpuFeatures& cpu = machine::onednn_features();
  if (dtype == at::kBFloat16) return cpu.avx512_core();
  if (dtype == at::kHalf) return cpu.avx512_fp16;
  return true;
}

LstmOperator::LstmOperator(const LstmShape& shape) : shape_(shape) {
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(shape.hidden_size)));
  const std::int64_t gates = 4 * shape.hidden_size;
  for (std::int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::int64_t inputs = layer == 0 ? shape.input_size : shape.num_directions * shape.hidden_size;
    for (std::int64_t direction = 0; direction < shape.num_directions; ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 0 ? "" : "_reverse");
      weights_.push_back(&parameter("weight_ih" + suffix, {gates, inputs}, init));
      weights_.push_back(&parameter("weight_hh" + suffix, {gates, shape.hidden_size}, init));
      weights_.push_back(&parameter("bias_ih" + suffix, {gates}, init));
      weights_.push_back(&parameter("bias_hh" + suffix, {gates}, init));
    }
  }
}

std::vector<at::Tensor> LstmOperator::weights_of(std::int64_t layer) const {
  const std::vector<at::Tensor> all = weights();
  const std::ptrdiff_t each = 4 * shape_.num_directions;
  return {all.begin() + layer * each, all.begin() + (layer + 1) * each};
}

std::vector<at::Tensor> LstmOperator::weights() const {
  std::vector<at::Tensor> all;
  for (const at::Tensor* weight : weights_) all.push_back(*weight);
  return all;
}

double LstmOperator::flops() const {
  double count = 0;
  for (const at::Tensor* weight : weights_)
    if (weight->dim() == 2) count += 2.0 * static_cast<double>(weight->numel());
  return count;
}

}  // namespace trainctl::model

// LSTM layers by LibTorch's fused operators, with torch.nn.LSTM's names and initialisation.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/layer.h"

namespace trainctl::model {

struct LstmShape {
  std::int64_t input_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 1;
  std::int64_t num_directions = 1;
};

struct LstmStates {
  at::Tensor hidden;  // [layers directions, B, H]
  at::Tensor cell;
};

struct LstmResult {
  at::Tensor output;
  LstmStates states{};
};

/// Does the operator's work in its place: all layers, in evaluation.
class LstmStandIn : public Layer {
 public:
  /// rows [B, T, in]; or tokens [N, in] of sequences, whose sizes are then defined.
  virtual bool works() const = 0;
  virtual LstmResult compute(const at::Tensor& input, const at::Tensor& batch_sizes, const LstmStates& states) = 0;
};

/// Whether oneDNN computes an LSTM of this type on this CPU. LibTorch's autocast asks for one without looking.
bool onednn_has_lstm_of(at::ScalarType dtype);

class LstmOperator final : public Layer {
 public:
  explicit LstmOperator(const LstmShape& shape);

  /// Returns the weights of one layer, by direction: input, hidden, and their biases.
  std::vector<at::Tensor> weights_of(std::int64_t layer) const;
  /// Returns the weights of all layers, one after another.
  std::vector<at::Tensor> weights() const;
  const LstmShape& shape() const { return shape_; }
  /// Returns the FLOPs of the forward pass of one token.
  double flops() const;

  /// Null: the layers are the caller's to run.
  LstmStandIn* stand_in() const { return stand_in_ != nullptr && stand_in_->works() ? stand_in_ : nullptr; }
  void set_override(std::unique_ptr<LstmStandIn> stand_in) {
    stand_in_ = stand_in.get();
    adopt(std::move(stand_in));
  }

 private:
  LstmShape shape_;
  std::vector<at::Tensor*> weights_;
  LstmStandIn* stand_in_ = nullptr;
};

}  // namespace trainctl::model

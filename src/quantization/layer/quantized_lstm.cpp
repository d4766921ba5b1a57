#include "quantization/layer/quantized_lstm.h"

#include <string>

namespace trainctl::quantization {
namespace {

/// A direction of a layer: the levels and scales of its matrices, and its biases, as the model lists them.
struct Direction {
  std::array<at::Tensor*, 2> levels;  // of the input's and of the hidden values' matrix: int8 [4 H, ...]
  std::array<at::Tensor*, 2> scales;  // float [4 H]
  std::array<at::Tensor*, 2> biases;  // float [4 H]
};

class DynamicLstm final : public QuantizedLstm {
 public:
  DynamicLstm(model::LstmOperator& layer, QuantizationBackend backend)
      : layer_(layer), reduce_range_(activation_bits(backend) < 8) {
    const model::LstmShape& shape = layer.shape();
    const std::vector<at::Tensor> weights = layer.weights();
    for (std::int64_t i = 0; i < shape.num_layers * shape.num_directions; ++i) {
      const std::string suffix =
          "_l" + std::to_string(i / shape.num_directions) + (i % shape.num_directions == 0 ? "" : "_reverse");
      Direction& direction = directions_.emplace_back();
      for (std::size_t k = 0; k < 2; ++k) {
        const std::string end = (k == 0 ? "_ih" : "_hh") + suffix;
        const at::Tensor& matrix = weights[4 * static_cast<std::size_t>(i) + k];
        direction.levels[k] = &buffer("weight" + end, matrix.sizes().vec(), at::kChar, 0);
        direction.scales[k] = &buffer("weight" + end + "_scale", {matrix.size(0)}, at::kFloat, 1);
        direction.biases[k] = &buffer("bias" + end, {matrix.size(0)}, at::kFloat, 0);
        num_weights_ += matrix.numel();
      }
    }
  }

  bool works() const override { return is_quantized_; }

  model::LstmResult compute(const at::Tensor& input, const at::Tensor& batch_sizes,
                            const model::LstmStates& states) override {
    const model::LstmShape& shape = layer_.shape();
    torch::jit::Stack stack{input.contiguous()};
    if (batch_sizes.defined()) stack.emplace_back(batch_sizes);
    stack.emplace_back(c10::List<at::Tensor>({states.hidden, states.cell}));
    stack.emplace_back(cells_);
    stack.emplace_back(/*has_biases=*/true);
    stack.emplace_back(shape.num_layers);
    stack.emplace_back(/*dropout=*/0.0);
    stack.emplace_back(/*train=*/false);
    stack.emplace_back(shape.num_directions == 2);
    if (!batch_sizes.defined()) stack.emplace_back(/*batch_first=*/true);
    stack.emplace_back(static_cast<std::int64_t>(at::kQInt8));
    stack.emplace_back(/*use_dynamic=*/true);
    find_operator("aten::quantized_lstm", batch_sizes.defined() ? "data" : "input").callBoxed(stack);
    return {.output = stack.at(0).toTensor(),
            .states = {.hidden = stack.at(1).toTensor(), .cell = stack.at(2).toTensor()}};
  }

  std::vector<QuantizedUnit> units() const override { return {{.name = "", .num_weights = num_weights_}}; }
  void set_mode(LayerMode mode, const UnitFilter& chosen) override {
    is_quantized_ = mode == LayerMode::quantized && chosen("");
  }

  void convert() override {
    const std::vector<at::Tensor> weights = layer_.weights();
    for (std::size_t i = 0; i < directions_.size(); ++i)
      for (std::size_t k = 0; k < 2; ++k) {
        const Int8Weight rows = quantize_rows(weights[4 * i + k]);
        *directions_[i].levels[k] = rows.levels;
        *directions_[i].scales[k] = rows.scales;
        *directions_[i].biases[k] = weights[4 * i + 2 + k].detach().clone();
      }
  }

  void prepare() override {
    const auto make = find_operator("quantized::make_quantized_cell_params_dynamic");
    c10::impl::GenericList cells(make.schema().returns().at(0).type());
    for (const Direction& direction : directions_) {
      torch::jit::Stack stack;
      for (std::size_t k = 0; k < 2; ++k)
        stack.emplace_back(pack_linear({*direction.levels[k], *direction.scales[k]}, *direction.biases[k]));
      for (std::size_t k = 0; k < 2; ++k) stack.emplace_back(*direction.biases[k]);
      stack.emplace_back(reduce_range_);
      make.callBoxed(stack);
      cells.push_back(stack.at(0));
    }
    cells_ = cells;
  }

  void finish() override {
    layer_.drop_state();
    is_quantized_ = true;
  }

 private:
  model::LstmOperator& layer_;
  bool reduce_range_;
  std::int64_t num_weights_ = 0;
  std::vector<Direction> directions_;
  c10::IValue cells_;
  bool is_quantized_ = false;
};

}  // namespace

std::unique_ptr<QuantizedLstm> quantized_lstm(model::LstmOperator& layer, QuantizationBackend backend) {
  return std::make_unique<DynamicLstm>(layer, backend);
}

}  // namespace trainctl::quantization

#include "quantization/layer/quantized_linear.h"

#include <ATen/ops/linear.h>

#include <optional>

#include "kernels/portable.h"
#include "model/layers/shared_input.h"
#include "model/layers/transposed_linear.h"
#include "quantization/layer/portable_rounding.h"
#include "quantization/workarounds/int8_gemm.h"

namespace trainctl::quantization {
namespace {

class QuantizedLinear : public QuantizedLayer {
 public:
  explicit QuantizedLinear(model::MatrixLayer& layer) : layer_(layer), num_weights_(matrix_of(layer).numel()) {
    const at::Tensor matrix = matrix_of(layer);
    weight_ = &buffer("weight", matrix.sizes().vec(), at::kChar, 0);
    scales_ = &buffer("weight_scale", {matrix.size(0)}, at::kFloat, 1);
    if (const at::Tensor bias = own_parameter(layer, "bias"); bias.defined())
      bias_ = &buffer("bias", {bias.size(0)}, at::kFloat, 0);
  }

  std::vector<QuantizedUnit> units() const final { return {{.name = "", .num_weights = num_weights_}}; }
  void set_mode(LayerMode mode, const UnitFilter& chosen) final {
    mode_ = mode == LayerMode::quantized && !chosen("") ? LayerMode::original : mode;
  }
  void convert() override { quantize({}); }
  void prepare() override { packed_ = pack_linear(weight(), bias()); }
  void finish() final {
    layer_.drop_state();
    mode_ = LayerMode::quantized;
  }

 protected:
  /// Quantizes the weight with the given scales; without them, with scales of its own.
  void quantize(const at::Tensor& scales) {
    const Int8Weight rows = quantize_rows(matrix_of(layer_), scales);
    *weight_ = rows.levels;
    *scales_ = rows.scales;
    if (bias_ != nullptr) *bias_ = own_parameter(layer_, "bias").detach().clone();
  }
  /// Returns scales with which QNNPACK's bias, an integer of steps of the product, doesn't overflow.
  at::Tensor scales_for_bias(const ProductScales& scales) const {
    return quantize_product(matrix_of(layer_), own_parameter(layer_, "bias"), scales).weight.scales;
  }
  LayerMode mode() const { return mode_; }
  Int8Weight weight() const { return {*weight_, *scales_}; }
  at::Tensor bias() const { return bias_ == nullptr ? at::Tensor() : *bias_; }
  LinearPackedParamsBase& packed() const { return *packed_; }
  /// Computes the engine's product in floats.
  at::Tensor multiply_floats(const at::Tensor& input) const {
    return at::linear(input, floats_of({*weight_, *scales_}), bias_ == nullptr ? std::nullopt : std::optional(*bias_));
  }

 private:
  model::MatrixLayer& layer_;
  std::int64_t num_weights_;
  at::Tensor* weight_;
  at::Tensor* scales_;
  at::Tensor* bias_ = nullptr;
  PackedLinear packed_;
  LayerMode mode_ = LayerMode::original;
};

class DynamicLinear final : public QuantizedLinear {
 public:
  DynamicLinear(model::MatrixLayer& layer, QuantizationBackend backend)
      : QuantizedLinear(layer), reduce_range_(activation_bits(backend) < 8) {}

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& input) override {
    if (mode() != LayerMode::quantized) return layer.compute(input);
    if (kernels::PortableOperators::are_wanted())
      return multiply_floats(round_to_own_range(input, reduce_range_ ? 7 : 8).dequantize());
    return packed().apply_dynamic(input.contiguous(), reduce_range_);
  }

 private:
  bool reduce_range_;
};

class StaticLinear final : public QuantizedLinear, public model::SharesInput {
 public:
  StaticLinear(model::MatrixLayer& layer, const StaticLinearOptions& options)
      : QuantizedLinear(layer),
        trained_(options.trained),
        backend_(options.backend),
        may_use_own_product_(options.engine_workarounds && options.observer.bits == 7),
        activations_(options.observer.activations),
        input_(options.observer),
        output_(options.observer) {
    for (const char* name : {"input", "output"}) {
      at::Tensor& scale = buffer(std::string(name) + "_scale", {}, at::kFloat, 1);
      slots_.emplace_back(scale, buffer(std::string(name) + "_zero_point", {}, at::kLong, 0));
    }
  }

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& input) override {
    if (mode() == LayerMode::quantized)
      return kernels::PortableOperators::are_wanted() ? multiply_portably(input) : multiply(input.contiguous());
    const at::Tensor output = layer.compute(input);
    if (mode() == LayerMode::watched) {
      input_.observe(input);
      output_.observe(output);
    }
    return output;
  }
  /// Computes layers of one input together. The input is rounded once; with our own product the layers are one product.
  std::vector<at::Tensor> compute_each(const std::vector<model::UnaryLayer*>& layers,
                                       const at::Tensor& input) override {
    std::vector<const StaticLinear*> all;
    for (const model::UnaryLayer* layer : layers) {
      all.push_back(dynamic_cast<const StaticLinear*>(layer->stand_in()));
      if (all.back() == nullptr || !can_share(*all.back())) return {};
    }
    if (backend_ != QuantizationBackend::onednn) return multiply_bytes(all, input.contiguous());
    const at::Tensor levels = to_levels(input.contiguous(), input_levels_);
    std::vector<at::Tensor> outputs;
    for (const StaticLinear* linear : all)
      outputs.push_back(trainctl::quantization::multiply(linear->onednn_, levels, input_levels_));
    return outputs;
  }
  void convert() override {
    slots_[0].write(trained_ != nullptr && trained_->input ? *trained_->input : input_.levels());
    slots_[1].write(output_.levels());
    const at::Tensor given = trained_ == nullptr ? at::Tensor() : trained_->weight_scales;
    const ProductScales scales{
        .input = slots_[0].scale(), .output = slots_[1].scale(), .given = given, .are_tie_free = false};
    quantize(backend_ == QuantizationBackend::qnnpack ? scales_for_bias(scales) : given);
  }
  void prepare() override {
    if (backend_ == QuantizationBackend::onednn)
      onednn_ = pack_onednn_linear(weight(), bias());
    else if (has_own_product())
      bytes_.emplace(weight().levels);
    else
      QuantizedLinear::prepare();
    input_levels_ = slots_[0].read("a linear layer's input");
    output_levels_ = slots_[1].read("a linear layer's output");
  }

 private:
  bool can_share(const StaticLinear& other) const {
    return other.mode() == LayerMode::quantized && !kernels::PortableOperators::are_wanted() &&
           other.backend_ == backend_ && other.input_levels_.scale == input_levels_.scale &&
           other.input_levels_.zero_point == input_levels_.zero_point &&
           (backend_ == QuantizationBackend::onednn || other.bytes_);
  }

  static std::vector<at::Tensor> multiply_bytes(const std::vector<const StaticLinear*>& linears,
                                                const at::Tensor& input) {
    std::vector<Int8Matrix::Factor> factors;
    for (const StaticLinear* linear : linears)
      factors.push_back({*linear->bytes_, linear->weight().scales, linear->bias()});
    const QParams& levels = linears[0]->input_levels_;
    return Int8Matrix::multiply(input, {.scale = levels.scale, .zero_point = levels.zero_point}, factors);
  }

  at::Tensor multiply(const at::Tensor& input) const {
    if (backend_ == QuantizationBackend::onednn)
      return trainctl::quantization::multiply(onednn_, to_levels(input, input_levels_), input_levels_);
    if (bytes_) return multiply_bytes({this}, input)[0];
    if (gives_floats())
      return packed().apply_with_input_q_dq_qweight_dq_output_fp32(input, input_levels_.scale,
                                                                   input_levels_.zero_point);
    return packed()
        .apply(to_levels(input, input_levels_), output_levels_.scale, output_levels_.zero_point)
        .dequantize();
  }

  at::Tensor multiply_portably(const at::Tensor& input) const {
    const at::Tensor product = multiply_floats(round_to(input, slots_[0], activations_).dequantize());
    return gives_floats() ? product : round_to(product, slots_[1], activations_).dequantize();
  }

  /// Returns whether our own product is used. FBGEMM's is slower there.
  bool has_own_product() const {
    const bool is_fbgemm = backend_ == QuantizationBackend::x86 || backend_ == QuantizationBackend::fbgemm;
    return is_fbgemm && may_use_own_product_ && Int8Matrix::pays() &&
           weight().levels.size(1) % Int8Matrix::kInputs == 0;
  }
  /// Returns whether the engine has an operator whose output isn't rounded.
  bool gives_floats() const { return backend_ != QuantizationBackend::qnnpack; }

  const TrainedLevels* trained_;
  QuantizationBackend backend_;
  bool may_use_own_product_;
  ActivationScheme activations_;
  OneDnnLinear onednn_;
  std::optional<Int8Matrix> bytes_;  // once prepared, where it has_own_product()
  Observer input_;
  Observer output_;
  std::vector<QParamBuffers> slots_;
  QParams input_levels_;
  QParams output_levels_;
};

}  // namespace

at::Tensor matrix_of(model::MatrixLayer& layer) {
  const at::Tensor weight = own_parameter(layer, "weight").detach();
  return dynamic_cast<model::TransposedLinear*>(&layer) != nullptr ? weight.t() : weight;
}

std::unique_ptr<QuantizedLayer> dynamic_linear(model::MatrixLayer& layer, QuantizationBackend backend) {
  return std::make_unique<DynamicLinear>(layer, backend);
}

std::unique_ptr<QuantizedLayer> static_linear(model::MatrixLayer& layer, const StaticLinearOptions& options) {
  return std::make_unique<StaticLinear>(layer, options);
}

}  // namespace trainctl::quantization

#include "quantization/layer/quantized_embedding.h"

#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/linear.h>

#include "core/error.h"
#include "kernels/portable.h"
#include "quantization/layer/portable_rounding.h"

namespace trainctl::quantization {
namespace {

constexpr std::int64_t kFewHeadRows = 4;  // beyond, one product with floats costs less than many with bytes

class Table final : public QuantizedTable {
 public:
  explicit Table(model::Embedding& layer)
      : layer_(layer),
        num_weights_(layer.weight().numel()),
        levels_(&buffer("weight", layer.weight().sizes().vec(), at::kChar, 0)),
        scales_(&buffer("weight_scale", {layer.weight().size(0)}, at::kFloat, 1)) {}

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& ids) override {
    if (!is_quantized_) return layer.compute(ids);
    const at::Tensor flat = ids.flatten();
    std::vector<std::int64_t> shape = ids.sizes().vec();
    shape.push_back(levels_->size(1));
    return levels_->index_select(0, flat).to(at::kFloat).mul_(scales_->index_select(0, flat).unsqueeze(1)).view(shape);
  }
  QuantizedRows rows() override { return {levels_, scales_}; }

  std::vector<QuantizedUnit> units() const override { return {{.name = "", .num_weights = num_weights_}}; }
  void set_mode(LayerMode mode, const UnitFilter& chosen) override {
    is_quantized_ = mode == LayerMode::quantized && chosen("");
  }
  void convert() override {
    const Int8Weight rows = quantize_rows(layer_.weight());
    *levels_ = rows.levels;
    *scales_ = rows.scales;
  }
  void prepare() override {}
  void finish() override {
    layer_.drop_state();
    is_quantized_ = true;
  }

 private:
  model::Embedding& layer_;
  std::int64_t num_weights_;
  at::Tensor* levels_;
  at::Tensor* scales_;
  bool is_quantized_ = false;
};

/// Returns the head's name of a tensor, since its layer may have no name of its own; `otherwise` if the tensor isn't
/// the head's.
std::string name_in(model::VocabularyHead& head, const at::Tensor& tensor, std::string otherwise) {
  std::string found = std::move(otherwise);
  head.visit_parameters([&](const std::string& name, model::TensorDecl& decl) {
    if (decl.value.is_same(tensor)) found = name;
  });
  return found;
}

class QuantizedHead final : public QuantizedLayer {
 public:
  QuantizedHead(model::VocabularyHead& head, QuantizedTable* tied, HeadProduct product, QuantizationBackend backend)
      : head_(head),
        is_tied_(tied != nullptr),
        product_(product),
        reduce_range_(activation_bits(backend) < 8),
        num_weights_(head.weight().numel()) {
    if (is_tied_) {
      rows_ = tied->rows();
    } else {
      const std::string name = name_in(head, head.weight(), "weight");
      rows_ = {&buffer(name, head.weight().sizes().vec(), at::kChar, 0),
               &buffer(name + "_scale", {head.weight().size(0)}, at::kFloat, 1)};
    }
    if (head.bias().defined())
      bias_ = &buffer(name_in(head, head.bias(), "bias"), {head.bias().size(0)}, at::kFloat, 0);
  }

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& hidden) override {
    if (!is_quantized_) return layer.compute(hidden);
    return head_.capped(multiply(head_.transform(hidden)));
  }

  std::vector<QuantizedUnit> units() const override {
    return {{.name = "", .num_weights = is_tied_ ? 0 : num_weights_}};
  }
  void set_mode(LayerMode mode, const UnitFilter& chosen) override {
    is_quantized_ = mode == LayerMode::quantized && chosen("");
  }
  void convert() override {
    if (!is_tied_) {
      const Int8Weight rows = quantize_rows(head_.weight());
      *rows_.levels = rows.levels;
      *rows_.scales = rows.scales;
    }
    if (bias_ != nullptr) *bias_ = head_.bias().detach().clone();
  }
  void prepare() override {
    if (product_ == HeadProduct::dynamic)
      packed_ = pack_linear({*rows_.levels, *rows_.scales}, bias_ == nullptr ? at::Tensor() : *bias_);
  }
  void finish() override {
    head_.drop_state();
    is_quantized_ = true;
  }

 private:
  at::Tensor multiply(const at::Tensor& transformed) const {
    if (kernels::PortableOperators::are_wanted()) return multiply_portably(transformed);
    if (product_ == HeadProduct::dynamic) return packed_->apply_dynamic(transformed.contiguous(), reduce_range_);
    const at::Tensor logits = multiply_rows(transformed, *rows_.levels, *rows_.scales);
    return bias_ == nullptr ? logits : logits.add(*bias_);
  }
  at::Tensor multiply_portably(const at::Tensor& transformed) const {
    const at::Tensor input = product_ == HeadProduct::dynamic
                                 ? round_to_own_range(transformed, reduce_range_ ? 7 : 8).dequantize()
                                 : transformed;
    return at::linear(input, floats_of({*rows_.levels, *rows_.scales}),
                      bias_ == nullptr ? std::nullopt : std::optional(*bias_));
  }

  model::VocabularyHead& head_;
  bool is_tied_;
  HeadProduct product_;
  bool reduce_range_;
  std::int64_t num_weights_;
  QuantizedRows rows_{};
  at::Tensor* bias_ = nullptr;
  PackedLinear packed_;
  bool is_quantized_ = false;
};

}  // namespace

std::unique_ptr<QuantizedTable> quantized_table(model::Embedding& layer) {
  return std::make_unique<Table>(layer);
}

std::unique_ptr<QuantizedLayer> quantized_head(model::VocabularyHead& head, QuantizedTable* tied, HeadProduct product,
                                               QuantizationBackend backend) {
  return std::make_unique<QuantizedHead>(head, tied, product, backend);
}

at::Tensor multiply_rows(const at::Tensor& input, const at::Tensor& levels, const at::Tensor& scales) {
  if (input.numel() / input.size(-1) > kFewHeadRows) return at::linear(input, levels.to(at::kFloat)).mul_(scales);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = levels.size(0);
  return at::_weight_int8pack_mm(input.flatten(0, -2).contiguous(), levels, scales).view(shape);
}

}  // namespace trainctl::quantization

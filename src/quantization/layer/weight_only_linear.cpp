// Weights of eight or four bits beside float activations. Four bits: https://arxiv.org/abs/2210.17323's storage, levels
// by round-to-nearest; LibTorch's _weight_int4pack_mm_for_cpu multiplies.
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>

#include "kernels/portable.h"
#include "quantization/layer/portable_rounding.h"
#include "quantization/layer/quantized_embedding.h"
#include "quantization/layer/quantized_linear.h"

namespace trainctl::quantization {
namespace {

constexpr std::int64_t kMaxVectorRows = 4;

/// The common part of both layers: the float layer, its bias, and whether it is quantized.
class WeightOnlyLinear : public QuantizedLayer {
 public:
  explicit WeightOnlyLinear(model::MatrixLayer& layer)
      : layer_(layer), out_features_(matrix_of(layer).size(0)), in_features_(matrix_of(layer).size(1)) {
    if (own_parameter(layer, "bias").defined()) bias_ = &buffer("bias", {out_features_}, at::kFloat, 0);
  }

  at::Tensor compute(model::UnaryLayer& layer, const at::Tensor& input) final {
    if (!is_quantized_) return layer.compute(input);
    if (kernels::PortableOperators::are_wanted())
      return at::linear(input, portable_matrix(), bias_ == nullptr ? std::nullopt : std::optional(*bias_));
    const at::Tensor product = multiply(input);
    return bias_ == nullptr ? product : product.add_(*bias_);
  }
  std::vector<QuantizedUnit> units() const final { return {{.name = "", .num_weights = out_features_ * in_features_}}; }
  void set_mode(LayerMode mode, const UnitFilter& chosen) final {
    is_quantized_ = mode == LayerMode::quantized && chosen("");
  }
  void convert() final {
    quantize(matrix_of(layer_).to(at::kFloat).contiguous());
    if (bias_ != nullptr) *bias_ = own_parameter(layer_, "bias").detach().clone();
  }
  void finish() final {
    layer_.drop_state();
    is_quantized_ = true;
  }

 protected:
  std::int64_t out_features() const { return out_features_; }
  std::int64_t in_features() const { return in_features_; }
  virtual void quantize(const at::Tensor& matrix) = 0;
  virtual at::Tensor multiply(const at::Tensor& input) = 0;  // [..., in] -> [..., out], a tensor of its own
  virtual at::Tensor portable_matrix() const = 0;            // [out, in], of operators that every runtime has

 private:
  model::MatrixLayer& layer_;
  std::int64_t out_features_;
  std::int64_t in_features_;
  at::Tensor* bias_ = nullptr;
  bool is_quantized_ = false;
};

/// A layer of int8 weights. Its groups lie one behind another, each a matrix [out, group], so that the operator for
/// whole rows multiplies them.
class Int8Linear final : public WeightOnlyLinear {
 public:
  Int8Linear(model::MatrixLayer& layer, std::int64_t group_size)
      : WeightOnlyLinear(layer), group_size_(group_size == 0 ? in_features() : group_size) {
    const std::int64_t groups = in_features() / group_size_;
    levels_ = &buffer("weight", {groups, out_features(), group_size_}, at::kChar, 0);
    scales_ = &buffer("weight_scale", {groups, out_features()}, at::kFloat, 1);
  }
  void prepare() override {}

 protected:
  void quantize(const at::Tensor& matrix) override {
    const at::Tensor groups = matrix.view({out_features(), -1, group_size_}).transpose(0, 1).contiguous();
    const Int8Weight rows = quantize_rows(groups.view({-1, group_size_}));
    *levels_ = rows.levels.view(groups.sizes());
    *scales_ = rows.scales.view({-1, out_features()});
  }
  at::Tensor multiply(const at::Tensor& input) override {
    const std::int64_t groups = levels_->size(0);
    if (groups == 1) return multiply_rows(input, levels_->select(0, 0), scales_->select(0, 0));
    if (input.numel() / input.size(-1) > kMaxVectorRows) {
      const at::Tensor matrix = levels_->to(at::kFloat).mul_(scales_->unsqueeze(2));  // [groups, out, size]
      return at::linear(input, matrix.transpose(0, 1).reshape({out_features(), in_features()}));
    }
    at::Tensor sum;
    for (std::int64_t group = 0; group < groups; ++group) {
      const at::Tensor part = multiply_rows(input.narrow(-1, group * group_size_, group_size_),
                                            levels_->select(0, group), scales_->select(0, group));
      sum = group == 0 ? part : sum.add_(part);
    }
    return sum;
  }
  at::Tensor portable_matrix() const override {
    const at::Tensor rows = floats_of({levels_->view({-1, group_size_}), scales_->view({-1})});
    if (levels_->size(0) == 1) return rows;
    return rows.view(levels_->sizes()).transpose(0, 1).reshape({out_features(), in_features()});
  }

 private:
  std::int64_t group_size_;
  at::Tensor* levels_;  // int8 [groups, out, group]
  at::Tensor* scales_;  // float [groups, out]
};

class Int4Linear final : public WeightOnlyLinear {
 public:
  Int4Linear(model::MatrixLayer& layer, std::int64_t group_size)
      : WeightOnlyLinear(layer),
        group_size_(group_size),
        levels_(&buffer("weight", {out_features(), in_features() / 2}, at::kByte, 0)),
        scales_(&buffer("weight_scale", {out_features(), in_features() / group_size}, at::kFloat, 1)),
        offsets_(&buffer("weight_offset", {out_features(), in_features() / group_size}, at::kFloat, 0)) {}

  void prepare() override {
    packed_ = at::_convert_weight_to_int4pack_for_cpu(unpacked().to(at::kInt), /*innerKTiles=*/1);
    scales_and_offsets_ = at::stack({*scales_, *offsets_}, 2).transpose(0, 1).contiguous();
  }

 protected:
  /// Quantizes the weights. Level 0 is a group's least weight, 15 its largest; level 8 is the offset, as the operator
  /// needs it.
  void quantize(const at::Tensor& matrix) override {
    const at::Tensor groups = matrix.view({out_features(), -1, group_size_});
    const at::Tensor low = groups.amin(2);
    *scales_ = groups.amax(2).sub(low).div(15).clamp_min(1e-10);
    *offsets_ = low.add(*scales_, 8);
    const at::Tensor levels = groups.sub(low.unsqueeze(2)).div(scales_->unsqueeze(2)).round_().clamp_(0, 15);
    const at::Tensor pairs = levels.to(at::kByte).view({out_features(), in_features() / 2, 2});
    *levels_ = pairs.select(2, 0).add(pairs.select(2, 1).mul(16)).contiguous();
  }
  at::Tensor multiply(const at::Tensor& input) override {
    if (input.numel() / input.size(-1) > kMaxVectorRows) return at::linear(input, matrix());
    std::vector<std::int64_t> shape = input.sizes().vec();
    shape.back() = out_features();
    return at::_weight_int4pack_mm_for_cpu(input.flatten(0, -2).contiguous(), packed_, group_size_, scales_and_offsets_)
        .view(shape);
  }
  at::Tensor portable_matrix() const override {
    const at::Tensor pairs = levels_->to(at::kInt);
    const at::Tensor second = pairs.div(16, "trunc");
    const at::Tensor levels = at::cat({pairs.sub(second.mul(16)).unsqueeze(2), second.unsqueeze(2)}, 2);
    return levels.view({out_features(), -1, group_size_})
        .to(at::kFloat)
        .sub(8)
        .mul(scales_->unsqueeze(2))
        .add(offsets_->unsqueeze(2))
        .view({out_features(), in_features()});
  }

 private:
  /// Returns the levels as uint8 [out, in].
  at::Tensor unpacked() const {
    return at::stack({levels_->bitwise_and(15), levels_->bitwise_right_shift(4)}, 2).flatten(1);
  }
  at::Tensor matrix() const {
    return unpacked()
        .to(at::kFloat)
        .sub_(8)
        .view({out_features(), -1, group_size_})
        .mul_(scales_->unsqueeze(2))
        .add_(offsets_->unsqueeze(2))
        .flatten(1);
  }

  std::int64_t group_size_;
  at::Tensor* levels_;   // uint8 [out, in / 2]: the first of two in the lower half
  at::Tensor* scales_;   // float [out, groups]
  at::Tensor* offsets_;  // float [out, groups]
  at::Tensor packed_;
  at::Tensor scales_and_offsets_;  // float [groups, out, 2]
};

}  // namespace

std::string refusal(const WeightOnlyFormat& format, std::int64_t in_features, std::int64_t out_features) {
  if (format.group_size > 0 && in_features % format.group_size != 0)
    return std::to_string(in_features) + " inputs aren't a multiple of the group size";
  if (format.bits == 4 && out_features % 16 != 0)
    return std::to_string(out_features) + " outputs aren't a multiple of 16";
  return "";
}

std::unique_ptr<QuantizedLayer> weight_only_linear(model::MatrixLayer& layer, const WeightOnlyFormat& format) {
  if (format.bits == 4) return std::make_unique<Int4Linear>(layer, format.group_size);
  return std::make_unique<Int8Linear>(layer, format.group_size);
}

}  // namespace trainctl::quantization

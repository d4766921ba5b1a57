#include "runtime/meta_operators.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <vector>

#include "runtime/fake_tensor.h"

namespace trainctl::runtime {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor like_if(bool wanted, const Tensor& tensor) {
  return wanted ? at::empty_like(tensor) : Tensor();
}

Tensor in_suggested_format(const Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().memory_format(tensor.suggest_memory_format()));
}

/// Returns what an operator on the elements of broadcast operands makes, in the order of their strides.
Tensor elementwise(std::initializer_list<Tensor> operands, at::ScalarType type) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype(type);
  config.add_owned_output(Tensor());
  for (const Tensor& operand : operands) config.add_owned_const_input(operand);
  return config.build().output();
}

// ---- convolution

struct Window {
  at::IntArrayRef stride, padding, dilation, output_padding;
  bool transposed;

  static std::int64_t of(at::IntArrayRef values, std::size_t dim) { return values[values.size() == 1 ? 0 : dim]; }
  std::int64_t reach(std::size_t dim, std::int64_t kernel) const { return of(dilation, dim) * (kernel - 1); }
  std::int64_t extent(std::size_t dim, std::int64_t size, std::int64_t kernel) const {
    const std::int64_t last = reach(dim, kernel);
    if (transposed) return (size - 1) * of(stride, dim) - 2 * of(padding, dim) + last + of(output_padding, dim) + 1;
    return (size + 2 * of(padding, dim) - last - 1) / of(stride, dim) + 1;
  }
  bool fits(std::size_t dim, std::int64_t size, std::int64_t kernel) const {
    return size + 2 * of(padding, dim) > reach(dim, kernel);
  }
};

at::MemoryFormat image_format(const Tensor& input, const Tensor& weight) {
  if (input.dim() != 4 && input.dim() != 5) return at::MemoryFormat::Contiguous;
  const at::MemoryFormat last = input.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  const bool is_last = input.suggest_memory_format() == last || weight.suggest_memory_format() == last;
  return is_last ? last : at::MemoryFormat::Contiguous;
}

/// Throws what LibTorch's kernels throw where the sizes don't fit.
void check_convolution(const Tensor& input, const Tensor& weight, const Window& window, std::int64_t groups) {
  TORCH_CHECK(input.dim() == weight.dim(), "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
              "-dimensional weight ", weight.sizes(), ", but got ", input.dim(), "-dimensional input of size ",
              input.sizes(), " instead");
  const std::int64_t channels = window.transposed ? weight.size(0) : weight.size(1) * groups;
  TORCH_CHECK(input.size(1) == channels, "Given groups=", groups, ", weight of size ", weight.sizes(),
              ", expected input", input.sizes(), " to have ", channels, " channels, but got ", input.size(1),
              " channels instead");
  for (std::int64_t dim = 2; dim < input.dim() && !window.transposed; ++dim)
    TORCH_CHECK(window.fits(static_cast<std::size_t>(dim - 2), input.size(dim), weight.size(dim)),
                "Kernel size can't be greater than actual input size: weight of size ", weight.sizes(), ", input of ",
                input.sizes());
}

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor&, at::IntArrayRef stride,
                   at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                   std::int64_t groups) {
  const Window window{stride, padding, dilation, output_padding, transposed};
  check_convolution(input, weight, window, groups);
  std::vector<std::int64_t> shape{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim)
    shape.push_back(window.extent(static_cast<std::size_t>(dim - 2), input.size(dim), weight.size(dim)));
  return at::empty(shape, input.options().memory_format(image_format(input, weight)));
}

Three convolution_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, at::OptionalIntArrayRef,
                           at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, bool, at::IntArrayRef, std::int64_t,
                           std::array<bool, 3> wanted) {
  const at::MemoryFormat format = image_format(input, weight);
  const auto laid_out = [&](bool is_wanted, const Tensor& tensor) {
    return is_wanted ? at::empty(tensor.sizes(), tensor.options().memory_format(format)) : Tensor();
  };
  return {laid_out(wanted[0], input), laid_out(wanted[1], weight),
          wanted[2] ? at::empty({gradient.size(1)}, gradient.options()) : Tensor()};
}

// ---- normalisation

at::TensorOptions statistics(const Tensor& input) {
  const bool is_half = input.scalar_type() == at::kBFloat16 || input.scalar_type() == at::kHalf;
  return input.options().dtype(is_half ? at::kFloat : input.scalar_type());
}

Three native_batch_norm(const Tensor& input, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                        const OptionalTensor&, bool training, double, double) {
  const std::int64_t channels = training ? input.size(1) : 0;
  return {in_suggested_format(input), at::empty({channels}, statistics(input)),
          at::empty({channels}, statistics(input))};
}

Three native_batch_norm_backward(const Tensor&, const Tensor& input, const OptionalTensor& weight,
                                 const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                 const OptionalTensor&, bool, double, std::array<bool, 3> wanted) {
  const at::TensorOptions options = weight && weight->defined() ? weight->options() : statistics(input);
  const auto by_channel = [&](bool is_wanted) { return is_wanted ? at::empty({input.size(1)}, options) : Tensor(); };
  return {wanted[0] ? in_suggested_format(input) : Tensor(), by_channel(wanted[1]), by_channel(wanted[2])};
}

Three native_layer_norm(const Tensor& input, at::IntArrayRef normalized, const OptionalTensor&, const OptionalTensor&,
                        double) {
  std::vector<std::int64_t> rows = input.sizes().vec();
  for (std::size_t i = rows.size() - normalized.size(); i < rows.size(); ++i) rows[i] = 1;
  return {at::empty_like(input, input.options(), at::MemoryFormat::Contiguous), at::empty(rows, statistics(input)),
          at::empty(rows, statistics(input))};
}

Three native_layer_norm_backward(const Tensor&, const Tensor& input, at::IntArrayRef, const Tensor&, const Tensor&,
                                 const OptionalTensor& weight, const OptionalTensor& bias, std::array<bool, 3> wanted) {
  return {wanted[0] ? at::empty_like(input, input.options(), at::MemoryFormat::Contiguous) : Tensor(),
          weight ? like_if(wanted[1], *weight) : Tensor(), bias ? like_if(wanted[2], *bias) : Tensor()};
}

// ---- attention

/// Chooses the kernel of attention, since LibTorch's meta kernel decomposes it. Runs right above the kernels, where
/// fake tensors still have their device.
void choose_attention(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  const Tensor query = (*stack)[first].toTensor();
  const Tensor key = (*stack)[first + 1].toTensor();
  const Tensor value = (*stack)[first + 2].toTensor();
  if (!is_fake(query)) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::CustomRNGKeyId),
                       stack);
    return;
  }
  constexpr std::int64_t kMath = 0;
  constexpr std::int64_t kFlash = 1;
  constexpr std::int64_t kEfficient = 2;
  const bool is_half = query.scalar_type() == at::kBFloat16 || query.scalar_type() == at::kHalf;
  const Tensor mask = (*stack)[first + 3].isNone() ? Tensor() : (*stack)[first + 3].toTensor();
  const bool has_mask = mask.defined();
  const double dropout = (*stack)[first + 4].toDouble();
  const bool has_rows = query.dim() == 4 && query.size(2) > 0 && key.size(2) > 0 && query.stride(3) == 1 &&
                        key.stride(3) == 1 && value.stride(3) == 1;
  const bool has_equal_heads = query.size(-1) == key.size(-1) && query.size(-1) == value.size(-1);
  const bool fits_mask = !has_mask || (!mask.requires_grad() && (mask.dim() == 2 || mask.dim() == 4));
  const std::int64_t on_cpu = dropout > 0 || !has_rows || !has_equal_heads || !fits_mask ? kMath : kFlash;
  const std::int64_t on_gpu = is_half && !has_mask ? kFlash : kEfficient;
  torch::jit::drop(stack, op.schema().arguments().size());
  torch::jit::push(stack, query.device().is_cuda() ? on_gpu : on_cpu);
}

Tensor heads_like(const Tensor& query, std::int64_t size) {
  return at::empty({query.size(0), query.size(2), query.size(1), size}, query.options()).transpose(1, 2);
}

Two flash_attention(const Tensor& query, const Tensor&, const Tensor& value, double, bool, const OptionalTensor&,
                    std::optional<double>) {
  return {heads_like(query, value.size(3)),
          at::empty({query.size(0), query.size(2), query.size(1)}, statistics(query)).transpose(1, 2)};
}

Three flash_attention_backward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value,
                               const Tensor&, const Tensor&, double, bool, const OptionalTensor&,
                               std::optional<double>) {
  return {heads_like(query, query.size(3)), heads_like(key, key.size(3)), heads_like(value, value.size(3))};
}

// ---- recurrence: oneDNN's layer keeps what its backward pass needs

using Rnn = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Rnn rnn_layer(const Tensor& input, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor& hidden,
              const Tensor& cell, bool, at::IntArrayRef, std::int64_t, std::int64_t size, std::int64_t, bool, bool,
              bool, bool) {
  const std::int64_t length = input.size(0);
  const std::int64_t batch = input.size(1);
  // Gates and states of each step, in rows that oneDNN pads: as measured, for sizes from 128 to 512.
  const std::int64_t row = 15 * size + 128;
  const std::int64_t workspace =
      (length * batch * row + 11 * batch * size) * static_cast<std::int64_t>(sizeof(float)) + (8 << 10);
  return {at::empty({length, batch, size}, input.options()), at::empty_like(hidden), at::empty_like(cell),
          at::empty({workspace}, input.options().dtype(at::kByte))};
}

using RnnBackward = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

RnnBackward rnn_layer_backward(const Tensor& input, const Tensor& weight1, const Tensor& weight2, const Tensor& bias1,
                               const Tensor& bias2, const Tensor& hidden, const Tensor& cell, const Tensor&,
                               const Tensor&, const Tensor&, const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor&, bool, std::int64_t, std::int64_t, std::int64_t, bool, bool, bool,
                               at::IntArrayRef, bool, const Tensor&) {
  return {at::empty_like(input), at::empty_like(weight1), at::empty_like(weight2), at::empty_like(bias1),
          at::empty_like(bias2), at::empty_like(hidden),  at::empty_like(cell)};
}

// ---- rows and places

Tensor index_select(const Tensor& input, std::int64_t dim, const Tensor& index) {
  std::vector<std::int64_t> shape = input.sizes().vec();
  if (!shape.empty()) shape[static_cast<std::size_t>(dim < 0 ? dim + input.dim() : dim)] = index.numel();
  return at::empty(shape, input.options());
}

Tensor embedding_dense_backward(const Tensor& gradient, const Tensor&, std::int64_t rows, std::int64_t, bool) {
  return at::zeros({rows, gradient.size(-1)}, gradient.options());
}

Tensor roll(const Tensor& input, at::IntArrayRef, at::IntArrayRef dims) {
  return dims.empty() ? at::empty(input.sizes(), input.options()) : in_suggested_format(input);
}

Tensor adaptive_avg_pool2d(const Tensor& input, at::IntArrayRef size) {
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape[shape.size() - 2] = size[0];
  shape[shape.size() - 1] = size[1];
  return at::empty(shape, input.options().memory_format(input.suggest_memory_format()));
}
Tensor adaptive_avg_pool2d_backward(const Tensor&, const Tensor& input) {
  return in_suggested_format(input);
}

Tensor linear_pointwise(const Tensor& input, const Tensor& weight, const OptionalTensor&, c10::string_view,
                        c10::List<std::optional<at::Scalar>>, std::optional<c10::string_view>) {
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.back() = weight.size(0);
  return at::empty(shape, input.options());
}

Tensor select(const Tensor& condition, const Tensor& one, const Tensor& other) {
  return elementwise({condition, one, other}, at::result_type(one, other));
}

/// Gives an output, if it has other sizes, the sizes, strides and memory of a result.
Tensor& take_layout(Tensor& output, const Tensor& result) {
  if (output.sizes() != result.sizes()) output.set_(result);
  return output;
}

/// Selects into `out`: attention converts its mask so.
Tensor& select_into(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  return take_layout(out, select(condition, self, other));
}

void cummax(const Tensor&, Tensor&, Tensor&, std::int64_t) {}

/// Returns the shape of the statistics over reduced dims.
Two var_mean(const Tensor& input, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>&, bool keep) {
  std::vector<std::int64_t> shape;
  for (std::int64_t i = 0; i < input.dim(); ++i) {
    bool is_reduced = !dims || dims->empty();
    if (dims)
      for (const std::int64_t dim : *dims) is_reduced = is_reduced || (dim + input.dim()) % input.dim() == i;
    if (!is_reduced)
      shape.push_back(input.size(i));
    else if (keep)
      shape.push_back(1);
  }
  return {at::empty(shape, input.options()), at::empty(shape, input.options())};
}

at::Scalar local_scalar(const Tensor& tensor) {
  if (tensor.is_floating_point()) return 0.0;
  if (tensor.scalar_type() == at::kBool) return false;
  return std::int64_t{0};
}

Tensor& unary(const Tensor& input, Tensor& output) {
  return take_layout(output, elementwise({input}, output.scalar_type()));
}

Tensor& binary(const Tensor& one, const Tensor& other, Tensor& output) {
  return take_layout(output, elementwise({one, other}, output.scalar_type()));
}

Tensor mse_loss_backward(const Tensor&, const Tensor& input, const Tensor&, std::int64_t) {
  return at::empty(input.sizes(), input.options());
}

// ---- rounding in training for eight bits: what is out of range is remembered in a mask

Two round_by_tensor(const Tensor& input, const Tensor&, const Tensor&, const Tensor&, std::int64_t, std::int64_t) {
  return {at::empty_like(input), at::empty_like(input, at::kBool)};
}

Two round_by_channel(const Tensor& input, const Tensor&, const Tensor&, std::int64_t, std::int64_t, std::int64_t) {
  return {at::empty_like(input), at::empty_like(input, at::kBool)};
}

Tensor round_learned(const Tensor& input, const Tensor&, const Tensor&, std::int64_t, std::int64_t, double) {
  return at::empty_like(input);
}

Tensor round_learned_by_channel(const Tensor& input, const Tensor&, const Tensor&, std::int64_t, std::int64_t,
                                std::int64_t, double) {
  return at::empty_like(input);
}

/// Allocates each value's share of the gradients of scale and zero point, which lives for a moment.
Three round_learned_backward(const Tensor&, const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                             std::int64_t, std::int64_t, double) {
  const std::array<Tensor, 2> by_value = {at::empty_like(input), at::empty_like(input)};
  return {at::empty_like(input), at::empty_like(scale), at::empty_like(zero_point)};
}

Three round_learned_by_channel_backward(const Tensor& gradient, const Tensor& input, const Tensor& scale,
                                        const Tensor& zero_point, std::int64_t, std::int64_t lowest,
                                        std::int64_t highest, double factor) {
  return round_learned_backward(gradient, input, scale, zero_point, lowest, highest, factor);
}

// ---- what lists of layers and scripted modules have beside

Tensor hardtanh(const Tensor& input, const at::Scalar&, const at::Scalar&) {
  return at::empty_like(input);
}

Tensor hardtanh_backward(const Tensor& gradient, const Tensor& input, const at::Scalar&, const at::Scalar&) {
  return elementwise({gradient, input}, input.scalar_type());
}

Tensor alike(const Tensor& input) {
  return at::empty_like(input);
}

Tensor& itself(Tensor& input) {
  return input;
}

Tensor& clipped(Tensor& input, const at::Scalar&, const at::Scalar&) {
  return input;
}

Tensor hardswish_backward(const Tensor& gradient, const Tensor& input) {
  return elementwise({gradient, input}, input.scalar_type());
}

Three native_group_norm(const Tensor& input, const OptionalTensor&, const OptionalTensor&, std::int64_t batch,
                        std::int64_t, std::int64_t, std::int64_t groups, double) {
  return {at::empty_like(input), at::empty({batch, groups}, statistics(input)),
          at::empty({batch, groups}, statistics(input))};
}

Three native_group_norm_backward(const Tensor&, const Tensor& input, const Tensor&, const Tensor&,
                                 const OptionalTensor& weight, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                 std::array<bool, 3> wanted) {
  return {like_if(wanted[0], input), weight ? like_if(wanted[1], *weight) : Tensor(),
          weight ? like_if(wanted[2], *weight) : Tensor()};
}

// ---- losses

Two nll_loss2d(const Tensor& logs, const Tensor& targets, const OptionalTensor&, std::int64_t reduction, std::int64_t) {
  const Tensor scalar = at::empty({}, logs.options());
  return {reduction == at::Reduction::None ? at::empty(targets.sizes(), logs.options()) : scalar,
          at::empty({}, logs.options())};
}

Tensor nll_loss2d_backward(const Tensor&, const Tensor& logs, const Tensor&, const OptionalTensor&, std::int64_t,
                           std::int64_t, const Tensor&) {
  return at::empty_like(logs);
}

/// Returns the values, and a buffer of as many that the backward pass reads.
Two log_sigmoid(const Tensor& values) {
  return {at::empty(values.sizes(), values.options()), at::empty(values.sizes(), values.options())};
}

Tensor log_sigmoid_backward(const Tensor& gradient, const Tensor&, const Tensor&) {
  return at::empty_like(gradient);
}

// ---- updates in place

void nothing(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(stack, op.schema().arguments().size());
}

}  // namespace

void add_meta_operators() {
  static const std::array<torch::Library, 3>* const libraries = [] {
    auto* const made = new std::array<torch::Library, 3>{
        torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__),
        torch::Library(torch::Library::IMPL, "mkldnn", c10::DispatchKey::Meta, __FILE__, __LINE__),
        torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CustomRNGKeyId, __FILE__, __LINE__)};
    torch::Library& aten = (*made)[0];
    aten.impl("convolution", &convolution);
    aten.impl("convolution_backward", &convolution_backward);
    aten.impl("native_batch_norm", &native_batch_norm);
    aten.impl("native_batch_norm_backward", &native_batch_norm_backward);
    aten.impl("native_layer_norm", &native_layer_norm);
    aten.impl("native_layer_norm_backward", &native_layer_norm_backward);
    aten.impl("_scaled_dot_product_flash_attention_for_cpu", &flash_attention);
    aten.impl("_scaled_dot_product_flash_attention_for_cpu_backward", &flash_attention_backward);
    aten.impl("mkldnn_rnn_layer", &rnn_layer);
    aten.impl("mkldnn_rnn_layer_backward", &rnn_layer_backward);
    aten.impl("hardtanh", &hardtanh);
    aten.impl("hardtanh_backward", &hardtanh_backward);
    aten.impl("hardtanh_", &clipped);
    for (const char* name : {"relu", "hardswish"}) aten.impl(name, &alike);
    for (const char* name : {"relu_", "hardswish_"}) aten.impl(name, &itself);
    aten.impl("hardswish_backward", &hardswish_backward);
    aten.impl("native_group_norm", &native_group_norm);
    aten.impl("native_group_norm_backward", &native_group_norm_backward);
    aten.impl("index_select", &index_select);
    aten.impl("embedding_dense_backward", &embedding_dense_backward);
    aten.impl("roll", &roll);
    aten.impl("_adaptive_avg_pool2d", &adaptive_avg_pool2d);
    aten.impl("_adaptive_avg_pool2d_backward", &adaptive_avg_pool2d_backward);
    aten.impl("where.self", &select);
    aten.impl("where.self_out", &select_into);
    aten.impl("_cummax_helper", &cummax);
    aten.impl("var_mean.correction", &var_mean);
    for (const char* name : {"abs.out", "logical_not.out", "angle.out"}) aten.impl(name, &unary);
    for (const char* name : {"logical_and.out", "logical_or.out", "logical_xor.out"}) aten.impl(name, &binary);
    aten.impl("_local_scalar_dense", &local_scalar);
    aten.impl("mse_loss_backward", &mse_loss_backward);
    aten.impl("nll_loss2d_forward", &nll_loss2d);
    aten.impl("nll_loss2d_backward", &nll_loss2d_backward);
    aten.impl("log_sigmoid_forward", &log_sigmoid);
    aten.impl("log_sigmoid_backward", &log_sigmoid_backward);
    aten.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", &round_by_tensor);
    aten.impl("fake_quantize_per_channel_affine_cachemask", &round_by_channel);
    aten.impl("_fake_quantize_learnable_per_tensor_affine", &round_learned);
    aten.impl("_fake_quantize_learnable_per_tensor_affine_backward", &round_learned_backward);
    aten.impl("_fake_quantize_learnable_per_channel_affine", &round_learned_by_channel);
    aten.impl("_fake_quantize_learnable_per_channel_affine_backward", &round_learned_by_channel_backward);
    for (const char* name :
         {"_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_amp_foreach_non_finite_check_and_unscale_"})
      aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&nothing>());
    (*made)[1].impl("_linear_pointwise", &linear_pointwise);
    (*made)[2].impl("_fused_sdp_choice", torch::CppFunction::makeFromBoxedFunction<&choose_attention>());
    return made;
  }();
  (void)libraries;
}

}  // namespace trainctl::runtime

// The table of cost rules.
#include <string_view>
#include <unordered_map>

#include "roofline/op_cost.h"

namespace trainctl::roofline {
namespace {

using enum WorkKind;
constexpr OperatorRole kWhole = OperatorRole::whole;
constexpr OperatorRole kAny = OperatorRole::any;
constexpr OpCostRule kAllocation{OperatorRole::allocation};
constexpr OpCostRule kView{OperatorRole::view};
constexpr OpCostRule kWritten{kAny, stream, ByteRule::written};
constexpr OpCostRule kCopy{kAny, stream, ByteRule::twice_written};
constexpr OpCostRule kProduct{kWhole, product};
constexpr OpCostRule kBatchedProduct{kWhole, batched_product};
constexpr OpCostRule kConvolution{kWhole, convolution};
constexpr OpCostRule kConvolutionBackward{kWhole, convolution_backward};
constexpr OpCostRule kAttention{kWhole, attention};
constexpr OpCostRule kAttentionBackward{kWhole, attention_backward};
constexpr OpCostRule kTranscendental{kAny, transcendental};
constexpr OpCostRule kReduction{kAny, reduction};
constexpr OpCostRule kRandom{kAny, random, ByteRule::written};
constexpr OpCostRule kGather{kWhole, gather, ByteRule::twice_written};
constexpr OpCostRule kScatter{kWhole, scatter, ByteRule::added};
constexpr OpCostRule kUpdate{kWhole, update, ByteRule::all, 1.75};  // three of the four that are read are written

struct NamedRule {
  std::string_view name;
  OpCostRule rule;
};

/// Cost rules of LibTorch's operators, by name without "aten::".
constexpr NamedRule kLibtorchRules[] = {
    {"empty", kAllocation},
    {"empty_like", kAllocation},
    {"empty_strided", kAllocation},
    {"new_empty", kAllocation},
    {"new_empty_strided", kAllocation},
    {"resize_", kAllocation},
    {"view", kView},
    {"t", kView},
    {"transpose", kView},
    {"as_strided", kView},
    {"slice", kView},
    {"select", kView},
    {"expand", kView},
    {"permute", kView},
    {"unsqueeze", kView},
    {"squeeze", kView},
    {"detach", kView},
    {"alias", kView},
    {"narrow", kView},
    {"split", kView},
    {"chunk", kView},
    {"unbind", kView},
    {"_unsafe_view", kView},
    {"reshape", kView},
    {"_reshape_alias", kView},
    {"split_with_sizes", kView},
    {"set_", kView},
    {"view_as", kView},
    {"unflatten", kView},
    {"flatten", kView},
    {"expand_as", kView},
    {"swapaxes", kView},
    {"movedim", kView},
    {"mm", kProduct},
    {"addmm", kProduct},
    {"addmm_", kProduct},
    {"_addmm_activation", kProduct},
    {"mv", kProduct},
    {"addmv", kProduct},
    {"addmv_", kProduct},
    {"bmm", kBatchedProduct},
    {"baddbmm", kBatchedProduct},
    {"baddbmm_", kBatchedProduct},
    {"convolution", kConvolution},
    {"convolution_overrideable", kConvolution},
    {"mkldnn_convolution", kConvolution},
    {"cudnn_convolution", kConvolution},
    {"thnn_conv2d", kConvolution},
    {"_slow_conv2d_forward", kConvolution},
    {"slow_conv_dilated2d", kConvolution},
    {"convolution_backward", kConvolutionBackward},
    {"convolution_backward_overrideable", kConvolutionBackward},
    {"mkldnn_rnn_layer", {kWhole, recurrence}},
    {"mkldnn_rnn_layer_backward", {kWhole, recurrence_backward}},
    {"_scaled_dot_product_flash_attention_for_cpu", kAttention},
    {"_scaled_dot_product_flash_attention", kAttention},
    {"_scaled_dot_product_efficient_attention", kAttention},
    {"_scaled_dot_product_cudnn_attention", kAttention},
    {"_flash_attention_forward", kAttention},
    {"_efficient_attention_forward", kAttention},
    {"_cudnn_attention_forward", kAttention},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", kAttentionBackward},
    {"_scaled_dot_product_flash_attention_backward", kAttentionBackward},
    {"_scaled_dot_product_efficient_attention_backward", kAttentionBackward},
    {"_scaled_dot_product_cudnn_attention_backward", kAttentionBackward},
    {"_flash_attention_backward", kAttentionBackward},
    {"_efficient_attention_backward", kAttentionBackward},
    {"_cudnn_attention_backward", kAttentionBackward},
    {"copy_", kCopy},
    {"cat", kCopy},
    {"clone", kCopy},
    {"fill_", kWritten},
    {"zero_", kWritten},
    {"arange", kWritten},
    {"nll_loss_backward", kWritten},
    {"nll_loss2d_backward", kWritten},
    {"gelu", kTranscendental},
    {"gelu_backward", kTranscendental},
    {"silu", kTranscendental},
    {"silu_backward", kTranscendental},
    {"sigmoid", kTranscendental},
    {"mish", kTranscendental},
    {"mish_backward", kTranscendental},
    {"softplus", kTranscendental},
    {"softplus_backward", kTranscendental},
    {"elu", kTranscendental},
    {"tanh", kTranscendental},
    {"exp", kTranscendental},
    {"exp_", kTranscendental},
    {"log", kTranscendental},
    {"pow", kTranscendental},
    {"erf", kTranscendental},
    {"sin", kTranscendental},
    {"cos", kTranscendental},
    {"_thnn_fused_lstm_cell", kTranscendental},
    {"_thnn_fused_lstm_cell_backward_impl", kTranscendental},
    {"_softmax", {kAny, softmax}},
    {"_log_softmax", {kAny, softmax}},
    {"sum", kReduction},
    {"mean", kReduction},
    {"amax", kReduction},
    {"any", kReduction},
    {"all", kReduction},
    {"linalg_vector_norm", kReduction},
    {"norm", kReduction},
    {"_foreach_norm", kReduction},
    {"argmax", kReduction},
    {"native_group_norm", {kWhole, normalization}},
    {"native_group_norm_backward", {kWhole, normalization_backward}},
    {"native_layer_norm", {kWhole, normalization}},
    {"native_layer_norm_backward", {kWhole, normalization_backward}},
    {"_fused_rms_norm", {kWhole, normalization}},
    {"_fused_rms_norm_backward", {kWhole, normalization_backward}},
    {"native_group_norm", {kWhole, normalization}},
    {"native_group_norm_backward", {kWhole, normalization_backward}},
    {"native_batch_norm", {kWhole, batch_norm}},
    {"_native_batch_norm_legit", {kWhole, batch_norm}},
    {"cudnn_batch_norm", {kWhole, batch_norm}},
    {"native_batch_norm_backward", {kWhole, batch_norm_backward}},
    {"cudnn_batch_norm_backward", {kWhole, batch_norm_backward}},
    {"max_pool2d_with_indices", {kWhole, pooling}},
    {"avg_pool2d", {kWhole, pooling}},
    {"_adaptive_avg_pool2d", {kWhole, pooling}},
    {"max_pool2d_with_indices_backward", {kWhole, pooling_backward}},
    {"avg_pool2d_backward", {kWhole, pooling_backward}},
    {"_adaptive_avg_pool2d_backward", {kWhole, pooling_backward}},
    {"embedding", kGather},
    {"index_select", kGather},
    {"gather", kGather},
    {"index", kGather},
    {"nll_loss_forward", kGather},
    {"nll_loss2d_forward", kGather},
    {"embedding_dense_backward", kScatter},
    {"index_add_", kScatter},
    {"scatter_add_", kScatter},
    {"index_put_", kScatter},
    {"_index_put_impl_", kScatter},
    {"bernoulli_", kRandom},
    {"normal_", kRandom},
    {"uniform_", kRandom},
    {"native_dropout", {kWhole, random}},
    {"_fused_adamw_", kUpdate},
    {"_fused_adam_", kUpdate},
    {"_fused_sgd_", {kWhole, update, ByteRule::all, 1.67}},
};

/// Cost rules of our own kernels, and of LibTorch's operators outside of aten.
constexpr NamedRule kOtherRules[] = {
    {"mkldnn::_linear_pointwise", kProduct},
    {"trainctl::linear", kProduct},
    {"trainctl::scaled_mm", kProduct},
    {"trainctl::winograd_convolution", kConvolution},
    {"trainctl::winograd_convolution_backward", kConvolutionBackward},
    {"trainctl::short_attention", kAttention},
    {"trainctl::short_attention_backward", kAttentionBackward},
    {"trainctl::dropout", {kWhole, random, ByteRule::by_allocated, 2}},
    {"trainctl::batch_norm", {kWhole, batch_norm, ByteRule::by_allocated, 2}},
    {"trainctl::batch_norm_backward", {kWhole, batch_norm_backward, ByteRule::by_allocated, 3}},
    {"trainctl::relu_of_max_pool", {kWhole, pooling}},
    {"trainctl::relu_of_max_pool_backward", {kWhole, pooling_backward}},
    {"trainctl::add_norm", {kWhole, normalization, ByteRule::by_allocated, 2}},
    {"trainctl::add_norm_backward", {kWhole, normalization_backward, ByteRule::by_allocated, 3}},
    {"trainctl::rotate", {kWhole, stream, ByteRule::by_allocated, 2}},
    {"trainctl::rotate_backward", {kWhole, stream, ByteRule::by_allocated, 2}},
    {"trainctl::swiglu", {kWhole, transcendental, ByteRule::by_allocated, 3}},
    {"trainctl::swiglu_backward", {kWhole, transcendental, ByteRule::by_allocated, 2.5}},
    {"trainctl::gelu", {kWhole, transcendental, ByteRule::by_allocated, 2}},
    {"trainctl::gelu_backward", {kWhole, transcendental, ByteRule::by_allocated, 3}},
    {"trainctl::adam_", kUpdate},
    {"trainctl::sum_of_squares", kReduction},
    {"trainctl::softmax_gradient", {kWhole, softmax, ByteRule::all, 3}},
};

using Rules = std::unordered_map<std::string_view, OpCostRule>;

template <std::size_t N>
Rules rules_by_name(const NamedRule (&named)[N]) {
  Rules rules;
  for (const NamedRule& one : named) rules.emplace(one.name, one.rule);
  return rules;
}

Rules& other_rules() {
  static Rules rules = rules_by_name(kOtherRules);
  return rules;
}

}  // namespace

void add_cost_rule(std::string_view name, const OpCostRule& rule) {
  other_rules()[name] = rule;
}

OpCostRule find_cost_rule(std::string_view name) {
  const bool is_aten = name.starts_with("aten::");
  static const Rules libtorch = rules_by_name(kLibtorchRules);
  const Rules& rules = is_aten ? libtorch : other_rules();
  const auto found = rules.find(is_aten ? name.substr(6) : name);
  return found == rules.end() ? OpCostRule{} : found->second;
}

}  // namespace trainctl::roofline

#include "profiler/record/operator_cost.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>

namespace trainctl::profiler {

std::int64_t OperatorInput::num_elements() const {
  if (element_bytes == 0) return 0;
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

namespace {

using Inputs = std::vector<OperatorInput>;

double product(const OperatorInput& left, const OperatorInput& right) {
  if (left.sizes.empty() || right.sizes.empty()) return 0;
  return 2.0 * static_cast<double>(left.num_elements()) * static_cast<double>(right.sizes.back());
}

/// [..., N, K] · [..., K, M] of the inputs `first` and the next.
double matrix_flops(const Inputs& inputs, std::size_t first) {
  return inputs.size() < first + 2 ? 0 : product(inputs[first], inputs[first + 1]);
}

/// input [..., in], weight [out, in].
double linear_flops(const Inputs& inputs) {
  if (inputs.size() < 2 || inputs[1].sizes.size() != 2) return 0;
  return 2.0 * static_cast<double>(inputs[0].num_elements()) * static_cast<double>(inputs[1].sizes[0]);
}

/// Of one output value: multiply-adds with a filter [out, in / groups, ...].
double filter_flops(const OperatorInput& weight) {
  if (weight.sizes.empty() || weight.sizes[0] == 0) return 0;
  return 2.0 * static_cast<double>(weight.num_elements()) / static_cast<double>(weight.sizes[0]);
}

std::int64_t at_or_last(const std::vector<std::int64_t>& numbers, std::size_t index, std::int64_t otherwise) {
  if (numbers.empty()) return otherwise;
  return numbers[std::min(index, numbers.size() - 1)];
}

struct ConvolutionGeometry {
  const std::vector<std::int64_t>& padding;
  const std::vector<std::int64_t>& stride;
  const std::vector<std::int64_t>& dilation;
};

double convolution_flops(const OperatorInput& input, const OperatorInput& weight, const ConvolutionGeometry& geometry) {
  if (input.sizes.size() < 3 || weight.sizes.size() != input.sizes.size()) return 0;
  double outputs = static_cast<double>(input.sizes[0] * weight.sizes[0]);
  for (std::size_t dim = 2; dim < input.sizes.size(); ++dim) {
    const std::int64_t stride = std::max<std::int64_t>(1, at_or_last(geometry.stride, dim - 2, 1));
    const std::int64_t reach = at_or_last(geometry.dilation, dim - 2, 1) * (weight.sizes[dim] - 1) + 1;
    const std::int64_t room = input.sizes[dim] + 2 * at_or_last(geometry.padding, dim - 2, 0) - reach;
    outputs *= static_cast<double>(std::max<std::int64_t>(0, room) / stride + 1);
  }
  return outputs * filter_flops(weight);
}

/// (input, weight, bias, padding, stride, dilation, groups).
double mkldnn_convolution_flops(const Inputs& inputs) {
  if (inputs.size() < 6) return 0;
  return convolution_flops(inputs[0], inputs[1], {inputs[3].numbers, inputs[4].numbers, inputs[5].numbers});
}

/// (input, weight, padding, stride, dilation, groups, …).
double cudnn_convolution_flops(const Inputs& inputs) {
  if (inputs.size() < 5) return 0;
  return convolution_flops(inputs[0], inputs[1], {inputs[2].numbers, inputs[3].numbers, inputs[4].numbers});
}

/// (input, weight, kernel_size, bias, stride, padding, dilation).
double slow_convolution_flops(const Inputs& inputs) {
  if (inputs.size() < 6) return 0;
  static const std::vector<std::int64_t> none;
  const std::vector<std::int64_t>& dilation = inputs.size() > 6 ? inputs[6].numbers : none;
  return convolution_flops(inputs[0], inputs[1], {inputs[5].numbers, inputs[4].numbers, dilation});
}

/// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask).
double convolution_backward_flops(const Inputs& inputs) {
  if (inputs.size() < 3) return 0;
  double passes = 2;
  if (inputs.size() > 10 && inputs[10].numbers.size() == 3)
    passes = static_cast<double>(inputs[10].numbers[0] + inputs[10].numbers[1]);
  return passes * static_cast<double>(inputs[0].num_elements()) * filter_flops(inputs[2]);
}

/// query [B, heads, T, d], key [B, heads, S, d]: two products, of which causal attention needs half.
double attention_flops(const Inputs& inputs, std::size_t query, double products) {
  if (inputs.size() < query + 2 || inputs[query + 1].sizes.size() < 3) return 0;
  const std::vector<std::int64_t>& key = inputs[query + 1].sizes;
  return products * 2.0 * static_cast<double>(inputs[query].num_elements()) * static_cast<double>(key[key.size() - 2]);
}

using Rule = double (*)(const Inputs&);
const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all{
      {"aten::mm", [](const Inputs& in) { return matrix_flops(in, 0); }},
      {"aten::bmm", [](const Inputs& in) { return matrix_flops(in, 0); }},
      {"aten::addmm", [](const Inputs& in) { return matrix_flops(in, 1); }},
      {"aten::addmm_", [](const Inputs& in) { return matrix_flops(in, 1); }},
      {"aten::addmv",
       [](const Inputs& in) { return in.size() < 3 ? 0.0 : 2.0 * static_cast<double>(in[1].num_elements()); }},
      {"aten::baddbmm", [](const Inputs& in) { return matrix_flops(in, 1); }},
      {"aten::baddbmm_", [](const Inputs& in) { return matrix_flops(in, 1); }},
      {"aten::_addmm_activation", [](const Inputs& in) { return matrix_flops(in, 1); }},
      {"mkldnn::_linear_pointwise", linear_flops},
      {"aten::mkldnn_convolution", mkldnn_convolution_flops},
      {"aten::cudnn_convolution", cudnn_convolution_flops},
      {"aten::_slow_conv2d_forward", slow_convolution_flops},
      {"aten::thnn_conv2d", slow_convolution_flops},
      {"aten::slow_conv_dilated2d", slow_convolution_flops},
      {"aten::convolution_backward", convolution_backward_flops},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", [](const Inputs& in) { return attention_flops(in, 0, 2); }},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       [](const Inputs& in) { return attention_flops(in, 1, 5); }},
      {"aten::_flash_attention_forward", [](const Inputs& in) { return attention_flops(in, 0, 2); }},
      {"aten::_efficient_attention_forward", [](const Inputs& in) { return attention_flops(in, 0, 2); }},
      {"aten::_flash_attention_backward", [](const Inputs& in) { return attention_flops(in, 1, 5); }},
      {"aten::_efficient_attention_backward", [](const Inputs& in) { return attention_flops(in, 1, 5); }},
  };
  return all;
}

bool is_view(const std::string& name) {
  static constexpr std::array kViews{"aten::view",
                                     "aten::t",
                                     "aten::transpose",
                                     "aten::as_strided",
                                     "aten::slice",
                                     "aten::select",
                                     "aten::expand",
                                     "aten::permute",
                                     "aten::unsqueeze",
                                     "aten::squeeze",
                                     "aten::detach",
                                     "aten::alias",
                                     "aten::narrow",
                                     "aten::split",
                                     "aten::chunk",
                                     "aten::unbind",
                                     "aten::_unsafe_view",
                                     "aten::empty",
                                     "aten::reshape",
                                     "aten::_reshape_alias",
                                     "aten::split_with_sizes",
                                     "detach",
                                     "aten::resize_",
                                     "aten::empty_like",
                                     "aten::empty_strided",
                                     "aten::set_",
                                     "aten::view_as",
                                     "aten::unflatten",
                                     "aten::flatten",
                                     "aten::expand_as",
                                     "aten::swapaxes",
                                     "aten::movedim"};
  return std::find(kViews.begin(), kViews.end(), name) != kViews.end();
}

}  // namespace

double operator_flops(const std::string& name, const Inputs& inputs) {
  const auto rule = rules().find(name);
  return rule == rules().end() ? 0 : rule->second(inputs);
}

double operator_bytes(const std::string& name, const Inputs& inputs, double allocated) {
  if (is_view(name)) return 0;
  double bytes = std::max(0.0, allocated);
  for (const OperatorInput& input : inputs)
    bytes += static_cast<double>(input.num_elements()) * static_cast<double>(input.element_bytes);
  if (name.ends_with('_') && !inputs.empty() && allocated <= 0)
    bytes += static_cast<double>(inputs[0].num_elements()) * static_cast<double>(inputs[0].element_bytes);
  return bytes;
}

}  // namespace trainctl::profiler

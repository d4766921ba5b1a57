#include "profiler/record/operator_call.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

namespace trainctl::profiler {
namespace {

namespace impl = torch::profiler::impl;
using Lists = std::vector<std::vector<std::int64_t>>;

/// The positions among a convolution's lists of integers.
struct Geometry {
  std::string_view name;
  std::size_t stride, padding, dilation;
};
constexpr Geometry kGeometries[] = {
    {"aten::convolution", 0, 1, 2}, {"aten::mkldnn_convolution", 1, 0, 2},   {"aten::cudnn_convolution", 1, 0, 2},
    {"aten::thnn_conv2d", 1, 2, 3}, {"aten::_slow_conv2d_forward", 1, 2, 3}, {"aten::slow_conv_dilated2d", 1, 2, 3},
};

/// Returns element `dim` of list `which`; a missing element is equal to the last.
std::int64_t number_of(const Lists& lists, std::size_t which, std::size_t dim, std::int64_t otherwise) {
  if (which >= lists.size() || lists[which].empty()) return otherwise;
  return lists[which][std::min(dim, lists[which].size() - 1)];
}

roofline::Operation::Shape convolved_shape(const roofline::DispatchedOperator& call, const Lists& lists) {
  if (call.inputs.size() < 2) return {};
  const roofline::Operation::Shape& input = call.inputs[0].shape;
  const roofline::Operation::Shape& weight = call.inputs[1].shape;
  if (input.size() < 3 || weight.size() != input.size()) return {};
  if (call.name == kWinograd) return {input[0], weight[0], input[2], input[3]};
  const auto* geometry = std::ranges::find(kGeometries, call.name, &Geometry::name);
  if (geometry == std::end(kGeometries)) return {};
  roofline::Operation::Shape output{input[0], weight[0]};
  for (std::size_t dim = 2; dim < input.size(); ++dim) {
    const std::int64_t stride = std::max<std::int64_t>(1, number_of(lists, geometry->stride, dim - 2, 1));
    const std::int64_t reach = number_of(lists, geometry->dilation, dim - 2, 1) * (weight[dim] - 1) + 1;
    const std::int64_t room = input[dim] + 2 * number_of(lists, geometry->padding, dim - 2, 0) - reach;
    output.push_back(std::max<std::int64_t>(0, room) / stride + 1);
  }
  return output;
}

roofline::TensorUse describe(const impl::TensorMetadata& tensor) {
  roofline::TensorUse use;
  use.shape.assign(tensor.sizes_.begin(), tensor.sizes_.end());
  use.strides.assign(tensor.strides_.begin(), tensor.strides_.end());
  use.dtype = tensor.dtype_;
  use.bytes = static_cast<double>(c10::elementSize(tensor.dtype_));
  for (std::size_t dim = 0; dim < tensor.sizes_.size(); ++dim)
    if (dim >= tensor.strides_.size() || tensor.strides_[dim] != 0)
      use.bytes *= static_cast<double>(tensor.sizes_[dim]);
  return use;
}

void add(const impl::TensorMetadata& tensor, roofline::DispatchedOperator& call) {
  roofline::TensorUse use = describe(tensor);
  call.input_bytes += use.bytes;
  if (call.inputs.size() < 4) call.inputs.push_back(std::move(use));
}

}  // namespace

Lists integer_lists(const OperatorFields& fields) {
  Lists lists;
  for (const impl::op_input_t& input : fields.concrete_inputs_)
    if (const auto* value = std::get_if<c10::IValue>(&input); value && value->isIntList())
      lists.push_back(value->toIntVector());
  return lists;
}

roofline::DispatchedOperator recorded_call(const OperatorFields& fields, double allocated) {
  roofline::DispatchedOperator call{.name = fields.name_};
  for (const impl::op_input_t& input : fields.inputs_) {
    if (const auto* tensor = std::get_if<impl::TensorMetadata>(&input)) add(*tensor, call);
    if (const auto* list = std::get_if<std::vector<impl::TensorMetadata>>(&input))
      for (const impl::TensorMetadata& tensor : *list) add(tensor, call);
  }
  for (const impl::op_input_t& input : fields.concrete_inputs_)
    if (const auto* value = std::get_if<c10::IValue>(&input)) roofline::read_flags(*value, call);
  const bool works_in_place = call.name.ends_with('_') && !call.inputs.empty();
  call.allocated_bytes = allocated > 0 || !works_in_place ? std::max(0.0, allocated) : call.inputs[0].bytes;
  call.convolved = convolved_shape(call, integer_lists(fields));
  return call;
}

}  // namespace trainctl::profiler

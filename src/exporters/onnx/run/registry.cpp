#include "exporters/onnx/run/registry.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <cstring>
#include <limits>

#include "core/error.h"

namespace trainctl::exporters {
namespace {

/// Returns the product of the dims; throws if it is no possible size.
std::int64_t num_elements(const onnx::Tensor& stored) {
  std::int64_t count = 1;
  for (const std::int64_t dim : stored.dims)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count) || count > (std::int64_t{1} << 40))
      throw core::Error("impossible dims; expected none below 0, and at most 2^40 elements");
  return count;
}

/// Reads a short tensor that the file stores as a list of numbers.
template <class Number>
at::Tensor of_numbers(const std::vector<Number>& numbers, std::int64_t count, at::ScalarType dtype) {
  if (static_cast<std::int64_t>(numbers.size()) != count)
    throw core::Error("wrong number of values, got " + std::to_string(numbers.size()) + "; expected " +
                      std::to_string(count) + " by the dims");
  return at::tensor(numbers).to(dtype);
}

core::Error wrong_type(const onnx::Attribute& attribute) {
  return core::Error("attribute `" + attribute.name + "`: wrong type");
}

}  // namespace

void check_size(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count) || count > kMostElements)
      throw core::Error("result: impossible size; expected at most " + std::to_string(kMostElements) + " elements");
}

at::ScalarType dtype_of_onnx(std::int64_t type) {
  switch (type) {
    case onnx::kFloat:
      return at::kFloat;
    case onnx::kUint8:
      return at::kByte;
    case onnx::kInt8:
      return at::kChar;
    case onnx::kInt32:
      return at::kInt;
    case onnx::kInt64:
      return at::kLong;
    case onnx::kBool:
      return at::kBool;
    case onnx::kFloat16:
      return at::kHalf;
    case onnx::kDouble:
      return at::kDouble;
    case onnx::kBfloat16:
      return at::kBFloat16;
    default:
      throw core::Error("unknown data type, got number " + std::to_string(type) +
                        "; expected a float, an integer of 8, 32 or 64 bits, or a bool");
  }
}

at::Tensor tensor_of_onnx(const onnx::Tensor& stored, std::optional<std::string_view> outside) {
  const at::ScalarType dtype = dtype_of_onnx(stored.data_type);
  const std::int64_t count = num_elements(stored);
  const std::vector<std::int64_t>& shape = stored.dims;
  if (!outside && !stored.raw_data) {
    if (!stored.float_data.empty()) return of_numbers(stored.float_data, count, dtype).reshape(shape);
    if (!stored.int64_data.empty()) return of_numbers(stored.int64_data, count, dtype).reshape(shape);
    return of_numbers(stored.int32_data, count, dtype).reshape(shape);
  }
  const std::string_view bytes = outside ? *outside : *stored.raw_data;
  const auto wanted = static_cast<std::uint64_t>(count) * c10::elementSize(dtype);
  if (bytes.size() != wanted)
    throw core::Error("wrong number of bytes, got " + std::to_string(bytes.size()) + "; expected " +
                      std::to_string(wanted) + " by the dims");
  at::Tensor tensor = at::empty(shape, dtype);
  if (wanted > 0) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

const at::Tensor& OnnxCall::input(std::size_t place) const {
  if (place >= inputs_.size() || !inputs_[place].defined())
    throw core::Error("input number " + std::to_string(place) + " is missing");
  return inputs_[place];
}

std::optional<at::Tensor> OnnxCall::optional(std::size_t place) const {
  if (place >= inputs_.size() || !inputs_[place].defined()) return std::nullopt;
  return inputs_[place];
}

std::vector<std::int64_t> OnnxCall::integers(std::size_t place) const {
  const at::Tensor& given = input(place);
  if (given.dim() > 1 || !c10::isIntegralType(given.scalar_type(), /*includeBool=*/false) || given.numel() > 64)
    throw core::Error("input number " + std::to_string(place) +
                      ": no list of integers; expected one dim, with at most 64 of them");
  const at::Tensor list = given.to(at::kLong).contiguous();
  const auto* begin = list.const_data_ptr<std::int64_t>();
  return {begin, begin + list.numel()};
}

const onnx::Attribute* OnnxCall::find(std::string_view name) const {
  for (const onnx::Attribute& attribute : node_.attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

std::int64_t OnnxCall::attribute(std::string_view name, std::int64_t otherwise) const {
  const onnx::Attribute* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->i) throw wrong_type(*found);
  return *found->i;
}

double OnnxCall::attribute(std::string_view name, double otherwise) const {
  const onnx::Attribute* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->f) throw wrong_type(*found);
  return static_cast<double>(*found->f);
}

std::string OnnxCall::attribute(std::string_view name, const char* otherwise) const {
  const onnx::Attribute* found = find(name);
  if (found == nullptr) return otherwise;
  if (!found->s) throw wrong_type(*found);
  return *found->s;
}

std::vector<std::int64_t> OnnxCall::attribute(std::string_view name, const std::vector<std::int64_t>& otherwise) const {
  const onnx::Attribute* found = find(name);
  if (found == nullptr) return otherwise;
  return found->ints.value_or(std::vector<std::int64_t>());
}

OnnxOperator find_onnx_operator(std::string_view name) {
  for (const auto find :
       {find_elementwise_operator, find_quantization_operator, find_image_operator, find_network_operator})
    if (const OnnxOperator found = find(name)) return found;
  return nullptr;
}

}  // namespace trainctl::exporters

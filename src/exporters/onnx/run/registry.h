// ONNX's operators (https://onnx.ai/onnx/operators/, opsets 13 to 17) by LibTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/onnx/proto.h"

namespace trainctl::exporters {

/// A node with the values of its inputs. Attributes and inputs of the wrong type are Errors.
class OnnxCall {
 public:
  OnnxCall(const onnx::Node& node, std::vector<at::Tensor> inputs) : node_(node), inputs_(std::move(inputs)) {}

  std::size_t num_inputs() const { return inputs_.size(); }
  std::size_t num_outputs() const { return node_.outputs.size(); }
  /// An Error where it is left out.
  const at::Tensor& input(std::size_t place) const;
  std::optional<at::Tensor> optional(std::size_t place) const;
  /// Returns the numbers of an integer input with at most one dim and 64 elements; other inputs are Errors.
  std::vector<std::int64_t> integers(std::size_t place) const;

  std::int64_t attribute(std::string_view name, std::int64_t otherwise) const;
  double attribute(std::string_view name, double otherwise) const;
  std::string attribute(std::string_view name, const char* otherwise) const;
  std::vector<std::int64_t> attribute(std::string_view name, const std::vector<std::int64_t>& otherwise) const;
  const onnx::Attribute* find(std::string_view name) const;

 private:
  const onnx::Node& node_;
  std::vector<at::Tensor> inputs_;  // undefined: left out
};

using OnnxOperator = std::vector<at::Tensor> (*)(const OnnxCall& call);

/// Null: it isn't known here.
OnnxOperator find_onnx_operator(std::string_view name);
/// Finds an operator that works element by element or reduces an axis.
OnnxOperator find_elementwise_operator(std::string_view name);
/// Finds an operator between floats and bytes.
OnnxOperator find_quantization_operator(std::string_view name);
/// Finds an operator on images.
OnnxOperator find_image_operator(std::string_view name);
/// Finds one of the other operators.
OnnxOperator find_network_operator(std::string_view name);

/// The most elements of a result that an operator makes out of a few numbers.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
/// Throws Error if a result of this shape has more than kMostElements.
void check_size(const std::vector<std::int64_t>& shape);

/// None of ONNX's numbers for types that are known here: an Error.
at::ScalarType dtype_of_onnx(std::int64_t type);

/// A tensor of the file, from its own bytes or from `outside`; sizes that disagree are Errors.
at::Tensor tensor_of_onnx(const onnx::Tensor& stored, std::optional<std::string_view> outside);

}  // namespace trainctl::exporters

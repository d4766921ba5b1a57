// An ONNX graph while it is put together. Only makes what is asked for; knows nothing of where it comes from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exporters/onnx/proto.h"
#include "exporters/signature.h"

namespace trainctl::exporters {

/// The set of operators that is written, and the file format's version that goes with it.
inline constexpr std::int64_t kOnnxOpset = 17;
inline constexpr std::int64_t kOnnxIrVersion = 8;

using OnnxAttribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
using OnnxAttributes = std::vector<std::pair<const char*, OnnxAttribute>>;

/// An input or output; axes are sizes, kBatchAxis or kSequenceAxis.
struct OnnxValue {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
};

class OnnxGraph {
 public:
  /// What nodes are called from now on: "<scope>/<operator>_<number>".
  void set_scope(std::string scope) { scope_ = std::move(scope); }

  /// Names of the outputs. An input "" is one that is left out.
  std::vector<std::string> add(std::string_view op, const std::vector<std::string>& inputs,
                               const OnnxAttributes& attributes, std::size_t num_outputs);
  std::string add(std::string_view op, const std::vector<std::string>& inputs, const OnnxAttributes& attributes = {}) {
    return add(op, inputs, attributes, 1).front();
  }
  /// A stored tensor, once for each name; shares memory.
  std::string tensor(const std::string& name, const at::Tensor& tensor);
  /// Stored under a name of its own, equal ones once: int64 [n], or a scalar.
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);
  std::string number(double value, at::ScalarType dtype);

  void input(const OnnxValue& value);
  /// Gives `value` the output's name.
  void output(const std::string& value, const OnnxValue& as);

  const onnx::Graph& nodes() const { return graph_; }
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }

 private:
  onnx::Graph graph_;  // without stored tensors
  std::map<std::string, at::Tensor> tensors_;
  std::string scope_;
  std::map<std::string, std::int64_t> num_nodes_;  // by name without a number
};

std::int32_t onnx_type(at::ScalarType dtype);

struct OnnxFileOptions {
  std::map<std::string, std::string> notes{};  // metadata_props
  /// More bytes of tensors than this go to a file of their own beside it, "<name>.data": protobuf's limit is 2 GiB.
  std::int64_t most_inside = (std::int64_t{2} << 30) - (std::int64_t{64} << 20);
};

/// Writes the file, and the other where there is one; returns both.
std::vector<std::string> write_onnx(const OnnxGraph& graph, const std::string& path, const OnnxFileOptions& options);

}  // namespace trainctl::exporters

#include "exporters/tensorrt.h"

#include <limits>
#include <map>
#include <string_view>

#include "core/file.h"
#include "core/text.h"
#include "exporters/onnx/proto.h"
#include "exporters/onnx/run/registry.h"

namespace trainctl::exporters {
namespace {

/// The operators of exported graphs that TensorRT's parser takes, between blanks.
constexpr std::string_view kKnownOperators =
    " Abs Add And AveragePool BatchNormalization Cast Clip Concat Constant Conv ConvTranspose Cos DequantizeLinear Div "
    "Dropout Elu "
    "Equal Erf Exp Expand Flatten Gather GatherElements Gemm GlobalAveragePool Greater "
    "GreaterOrEqual HardSigmoid HardSwish Identity InstanceNormalization LSTM LayerNormalization LeakyRelu Less "
    "LessOrEqual Log MatMul Max MaxPool Min Mod Mul "
    "Neg Not Or Pow QuantizeLinear Range ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Resize Round "
    "Shape Sigmoid Sin Slice Softmax Softplus Split Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where ";

/// The problems of a graph, each with its first place.
class Problems {
 public:
  explicit Problems(const onnx::Graph& graph) : graph_(graph) {
    for (const onnx::Tensor& tensor : graph.initializers) stored_[tensor.name] = &tensor;
  }

  std::vector<std::string> find() {
    for (const onnx::Node& node : graph_.nodes) {
      if (kKnownOperators.find(" " + node.op_type + " ") == std::string_view::npos)
        add("it has no operator " + node.op_type, node);
      if (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear")
        check_levels(node);
      else
        check_bytes(node);
    }
    std::vector<std::string> all;
    for (const auto& [what, place] : found_)
      all.push_back(what + " (" + place.first +
                    (place.count > 1 ? ", and " + core::format_count(place.count - 1) + " more)" : ")"));
    return all;
  }

 private:
  struct Place {
    std::string first;
    std::int64_t count = 0;
  };

  void add(const std::string& what, const onnx::Node& node) {
    Place& place = found_[what];
    if (place.count++ == 0) place.first = node.name;
  }

  const onnx::Tensor* stored(const onnx::Node& node, std::size_t input) const {
    const auto found = node.inputs.size() > input ? stored_.find(node.inputs[input]) : stored_.end();
    return found == stored_.end() ? nullptr : found->second;
  }

  void check_levels(const onnx::Node& node) {
    if (stored(node, 1) == nullptr)
      return add("scales must be known when the engine is built: static, not dynamic", node);
    const onnx::Tensor* zero_point = stored(node, 2);
    if (zero_point == nullptr) return;
    if (zero_point->data_type != onnx::kInt8)
      return add("levels must be signed bytes: --activation-scheme symmetric", node);
    if (tensor_of_onnx(*zero_point, std::nullopt).any().item<bool>())
      add("zero points must be 0: --activation-scheme symmetric", node);
  }

  /// Reports stored bytes of any operator that isn't DequantizeLinear.
  void check_bytes(const onnx::Node& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (const onnx::Tensor* tensor = stored(node, i))
        if (tensor->data_type == onnx::kInt8 || tensor->data_type == onnx::kUint8)
          add(node.op_type + " can't read bytes: keep `" + tensor->name + "` in float", node);
  }

  const onnx::Graph& graph_;
  std::map<std::string, const onnx::Tensor*> stored_;
  std::map<std::string, Place> found_;
};

}  // namespace

std::vector<std::string> tensorrt_problems(const std::filesystem::path& onnx_file) {
  const std::string bytes = core::read_file(onnx_file, std::numeric_limits<std::int32_t>::max());
  const onnx::Model model = onnx::decode(bytes);
  return Problems(model.graph).find();
}

}  // namespace trainctl::exporters

#include "exporters/onnx/builder.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "core/file.h"

namespace trainctl::exporters {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAlignment = 4096;  // of tensors in a file of their own, so that they can be mapped

onnx::Attribute attribute_of(const char* name, const OnnxAttribute& value) {
  onnx::Attribute attribute{.name = name};
  if (const auto* integer = std::get_if<std::int64_t>(&value)) attribute.i = *integer;
  if (const auto* number = std::get_if<float>(&value)) attribute.f = *number;
  if (const auto* text = std::get_if<std::string>(&value)) attribute.s = *text;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) attribute.ints = *list;
  return attribute;
}

onnx::ValueInfo described(const OnnxValue& value) {
  onnx::ValueInfo info{.name = value.name, .data_type = onnx_type(value.dtype), .dims = {}};
  for (const std::int64_t size : value.shape)
    info.dims.push_back(size == kBatchAxis      ? onnx::Dimension{.name = "batch"}
                        : size == kSequenceAxis ? onnx::Dimension{.name = "sequence"}
                                                : onnx::Dimension{.value = size});
  return info;
}

/// Stores a tensor's place in another file.
void put_outside(onnx::Tensor& stored, const std::string& file, std::uint64_t offset, std::size_t size) {
  stored.is_external = true;
  stored.external_data = {{"location", file}, {"offset", std::to_string(offset)}, {"length", std::to_string(size)}};
}

/// Stores contiguous tensors; the graph refers to their memory.
void store_tensors(const std::map<std::string, at::Tensor>& dense, onnx::Graph& to, core::FileWriter* outside,
                   const std::string& outside_name) {
  for (const auto& [name, tensor] : dense) {
    onnx::Tensor stored{.name = name, .dims = tensor.sizes().vec(), .data_type = onnx_type(tensor.scalar_type())};
    const std::string_view bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    if (outside == nullptr || bytes.size() < kAlignment) {
      stored.raw_data = bytes;
    } else {
      const std::size_t past = outside->offset() % kAlignment;
      if (past != 0) outside->write(std::string(kAlignment - past, '\0'));
      put_outside(stored, outside_name, outside->offset(), bytes.size());
      outside->write(bytes);
    }
    to.initializers.push_back(std::move(stored));
  }
}

std::int64_t num_bytes(const OnnxGraph& graph) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : graph.tensors()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

std::int32_t onnx_type(at::ScalarType dtype) {
  if (dtype == at::kFloat) return onnx::kFloat;
  if (dtype == at::kLong) return onnx::kInt64;
  if (dtype == at::kBool) return onnx::kBool;
  if (dtype == at::kDouble) return onnx::kDouble;
  if (dtype == at::kInt) return onnx::kInt32;
  if (dtype == at::kHalf) return onnx::kFloat16;
  if (dtype == at::kBFloat16) return onnx::kBfloat16;
  if (dtype == at::kChar) return onnx::kInt8;
  if (dtype == at::kByte) return onnx::kUint8;
  throw core::Error(std::string("ONNX has no type for ") + c10::toString(dtype));
}

std::vector<std::string> OnnxGraph::add(std::string_view op, const std::vector<std::string>& inputs,
                                        const OnnxAttributes& attributes, std::size_t num_outputs) {
  const std::string kind = (scope_.empty() ? "" : scope_ + "/") + std::string(op);
  const std::string name = kind + "_" + std::to_string(num_nodes_[kind]++);
  onnx::Node node{.name = name, .op_type = std::string(op), .inputs = inputs};
  for (const auto& [key, value] : attributes) node.attributes.push_back(attribute_of(key, value));
  for (std::size_t i = 0; i < num_outputs; ++i)
    node.outputs.push_back(name + (num_outputs == 1 ? "" : "." + std::to_string(i)));
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

std::string OnnxGraph::tensor(const std::string& name, const at::Tensor& tensor) {
  tensors_.try_emplace(name, tensor);
  return name;
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  std::string name = "integers";
  for (const std::int64_t value : values) name += "_" + std::to_string(value);
  return tensor(name, at::tensor(values, at::kLong));
}

std::string OnnxGraph::integer(std::int64_t value) {
  return tensor("integer_" + std::to_string(value), at::scalar_tensor(value, at::kLong));
}

std::string OnnxGraph::number(double value, at::ScalarType dtype) {
  if (dtype == at::kLong) return integer(static_cast<std::int64_t>(value));
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return tensor(std::string("number_") + text + "_" + c10::toString(dtype), at::scalar_tensor(value, dtype));
}

void OnnxGraph::input(const OnnxValue& value) {
  graph_.inputs.push_back(described(value));
}

void OnnxGraph::output(const std::string& value, const OnnxValue& as) {
  graph_.nodes.push_back({.name = "output/" + as.name, .op_type = "Identity", .inputs = {value}, .outputs = {as.name}});
  graph_.outputs.push_back(described(as));
}

std::vector<std::string> write_onnx(const OnnxGraph& graph, const std::string& path, const OnnxFileOptions& options) {
  onnx::Model model{.ir_version = kOnnxIrVersion,
                    .producer = "trainctl",
                    .opsets = {{.domain = "", .version = kOnnxOpset}},
                    .metadata = {},
                    .graph = graph.nodes()};
  for (const auto& [key, value] : options.notes) model.metadata.push_back({key, value});
  model.graph.name = "trainctl";
  std::map<std::string, at::Tensor> dense;
  for (const auto& [name, tensor] : graph.tensors()) dense[name] = tensor.detach().contiguous();
  std::vector<std::string> files{path};
  if (num_bytes(graph) <= options.most_inside) {
    store_tensors(dense, model.graph, nullptr, "");
  } else {
    files.push_back(path + ".data");
    core::FileWriter outside(files.back() + ".tmp");
    store_tensors(dense, model.graph, &outside, fs::path(files.back()).filename().string());
    outside.close(core::Durability::process);
    fs::rename(files.back() + ".tmp", files.back());
  }
  core::write_file_atomically(path, onnx::encode(model));
  return files;
}

}  // namespace trainctl::exporters

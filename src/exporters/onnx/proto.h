// The part of ONNX's onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto) that networks need. Protozero
// writes and reads the wire format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::exporters::onnx {

/// TensorProto.DataType.
enum DataType : std::int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kBfloat16 = 16,
};

struct Entry {
  std::string key;
  std::string value;
};

struct Tensor {
  std::string name;
  std::vector<std::int64_t> dims;
  std::int32_t data_type = 0;
  std::optional<std::string_view> raw_data;  // someone else's memory: the file's, or a tensor's
  std::vector<float> float_data;             // of short ones in files of others, as the next two
  std::vector<std::int32_t> int32_data;
  std::vector<std::int64_t> int64_data;
  std::vector<Entry> external_data;
  bool is_external = false;
};

struct Attribute {
  std::string name;
  std::optional<float> f;
  std::optional<std::int64_t> i;
  std::optional<std::string> s;
  std::optional<Tensor> t;
  std::optional<std::vector<std::int64_t>> ints;
};

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<Attribute> attributes;
};

/// A size, or the name of a free one.
struct Dimension {
  std::int64_t value = 0;
  std::string name;
};

struct ValueInfo {
  std::string name;
  std::int32_t data_type = 0;
  std::vector<Dimension> dims;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs;
  std::vector<ValueInfo> outputs;
};

struct OperatorSet {
  std::string domain;
  std::int64_t version = 0;
};

struct Model {
  std::int64_t ir_version = 0;
  std::string producer;
  std::vector<OperatorSet> opsets;
  std::vector<Entry> metadata;
  Graph graph;
  bool has_functions = false;  // read only
};

std::string encode(const Model& model);

/// What isn't protobuf, or has a field of another type, is an Error. The result refers to `bytes`.
Model decode(std::string_view bytes);

}  // namespace trainctl::exporters::onnx

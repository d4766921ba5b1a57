#include "exporters/onnx/proto.h"

#include <limits>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "core/error.h"

namespace trainctl::exporters::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();

// ---- writing

std::string encode(const Entry& entry) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_string(1, entry.key);
  to.add_string(2, entry.value);
  return bytes;
}

std::string encode(const Tensor& tensor) {
  std::string bytes;
  pbf_writer to(bytes);
  for (const std::int64_t dim : tensor.dims) to.add_int64(1, dim);
  to.add_int32(2, tensor.data_type);
  to.add_string(8, tensor.name);
  if (tensor.raw_data) to.add_bytes(9, tensor.raw_data->data(), tensor.raw_data->size());
  for (const Entry& entry : tensor.external_data) to.add_message(13, encode(entry));
  if (tensor.is_external) to.add_enum(14, 1);
  return bytes;
}

std::string encode(const Attribute& attribute) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_string(1, attribute.name);
  const auto type = [&](int number) { to.add_enum(20, number); };
  if (attribute.f) to.add_float(2, *attribute.f), type(1);
  if (attribute.i) to.add_int64(3, *attribute.i), type(2);
  if (attribute.s) to.add_bytes(4, *attribute.s), type(3);
  if (attribute.t) to.add_message(5, encode(*attribute.t)), type(4);
  if (!attribute.ints) return bytes;
  for (const std::int64_t value : *attribute.ints) to.add_int64(8, value);
  type(7);
  return bytes;
}

std::string encode(const Node& node) {
  std::string bytes;
  pbf_writer to(bytes);
  for (const std::string& input : node.inputs) to.add_string(1, input);
  for (const std::string& output : node.outputs) to.add_string(2, output);
  to.add_string(3, node.name);
  to.add_string(4, node.op_type);
  for (const Attribute& attribute : node.attributes) to.add_message(5, encode(attribute));
  if (!node.domain.empty()) to.add_string(7, node.domain);
  return bytes;
}

/// Encodes a shape. A scalar's shape is an empty message, which differs from none.
std::string encode_shape(const std::vector<Dimension>& dims) {
  std::string bytes;
  pbf_writer to(bytes);
  for (const Dimension& dim : dims) {
    pbf_writer one(to, 1);
    if (dim.name.empty())
      one.add_int64(1, dim.value);
    else
      one.add_string(2, dim.name);
  }
  return bytes;
}

std::string encode(const ValueInfo& value) {
  std::string tensor;
  pbf_writer to_tensor(tensor);
  to_tensor.add_enum(1, value.data_type);
  to_tensor.add_message(2, encode_shape(value.dims));
  std::string type;
  pbf_writer(type).add_message(1, tensor);
  std::string bytes;
  pbf_writer to(bytes);
  to.add_string(1, value.name);
  to.add_message(2, type);
  return bytes;
}

std::string encode(const Graph& graph) {
  std::string bytes;
  pbf_writer to(bytes);
  for (const Node& node : graph.nodes) to.add_message(1, encode(node));
  to.add_string(2, graph.name);
  for (const Tensor& tensor : graph.initializers) to.add_message(5, encode(tensor));
  for (const ValueInfo& input : graph.inputs) to.add_message(11, encode(input));
  for (const ValueInfo& output : graph.outputs) to.add_message(12, encode(output));
  return bytes;
}

std::string encode(const OperatorSet& opset) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_string(1, opset.domain);
  to.add_int64(2, opset.version);
  return bytes;
}

// ---- reading

/// Throws unless the field has the type, which protozero doesn't check.
void require(const pbf_reader& field, pbf_wire_type type) {
  if (!field.has_wire_type(type))
    throw core::Error("the file is damaged: another type than expected in field " + std::to_string(field.tag()));
}

std::int64_t integer(pbf_reader& field) {
  require(field, pbf_wire_type::varint);
  return field.get_int64();
}

float real(pbf_reader& field) {
  require(field, pbf_wire_type::fixed32);
  return field.get_float();
}

std::string text(pbf_reader& field) {
  require(field, pbf_wire_type::length_delimited);
  return field.get_string();
}

std::string_view raw_bytes(pbf_reader& field) {
  require(field, pbf_wire_type::length_delimited);
  const protozero::data_view bytes = field.get_view();
  return {bytes.data(), bytes.size()};
}

pbf_reader message(pbf_reader& field) {
  require(field, pbf_wire_type::length_delimited);
  return field.get_message();
}

/// Decodes one number, or all of them packed.
template <class Number>
void append_integers(pbf_reader& field, std::vector<Number>& to) {
  if (field.has_wire_type(pbf_wire_type::varint)) return to.push_back(static_cast<Number>(field.get_int64()));
  require(field, pbf_wire_type::length_delimited);
  for (const std::int64_t value : field.get_packed_int64()) to.push_back(static_cast<Number>(value));
}

void append_floats(pbf_reader& field, std::vector<float>& to) {
  if (field.has_wire_type(pbf_wire_type::fixed32)) return to.push_back(field.get_float());
  require(field, pbf_wire_type::length_delimited);
  for (const float value : field.get_packed_float()) to.push_back(value);
}

Entry decode_entry(pbf_reader from) {
  Entry entry;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        entry.key = text(from);
        break;
      case 2:
        entry.value = text(from);
        break;
      default:
        from.skip();
    }
  }
  return entry;
}

Tensor decode_tensor(pbf_reader from) {
  Tensor tensor;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        append_integers(from, tensor.dims);
        break;
      case 2:
        tensor.data_type = static_cast<std::int32_t>(integer(from));
        break;
      case 4:
        append_floats(from, tensor.float_data);
        break;
      case 5:
        append_integers(from, tensor.int32_data);
        break;
      case 7:
        append_integers(from, tensor.int64_data);
        break;
      case 8:
        tensor.name = text(from);
        break;
      case 9:
        tensor.raw_data = raw_bytes(from);
        break;
      case 13:
        tensor.external_data.push_back(decode_entry(message(from)));
        break;
      case 14:
        tensor.is_external = integer(from) != 0;
        break;
      default:
        from.skip();
    }
  }
  return tensor;
}

Attribute decode_attribute(pbf_reader from) {
  Attribute attribute;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        attribute.name = text(from);
        break;
      case 2:
        attribute.f = real(from);
        break;
      case 3:
        attribute.i = integer(from);
        break;
      case 4:
        attribute.s = text(from);
        break;
      case 5:
        attribute.t = decode_tensor(message(from));
        break;
      case 8:
        if (!attribute.ints) attribute.ints.emplace();
        append_integers(from, *attribute.ints);
        break;
      default:
        from.skip();
    }
  }
  return attribute;
}

Node decode_node(pbf_reader from) {
  Node node;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        node.inputs.push_back(text(from));
        break;
      case 2:
        node.outputs.push_back(text(from));
        break;
      case 3:
        node.name = text(from);
        break;
      case 4:
        node.op_type = text(from);
        break;
      case 5:
        node.attributes.push_back(decode_attribute(message(from)));
        break;
      case 7:
        node.domain = text(from);
        break;
      default:
        from.skip();
    }
  }
  return node;
}

/// Decodes a value's name. A run needs no types and shapes.
ValueInfo decode_value(pbf_reader from) {
  ValueInfo value;
  while (from.next()) {
    if (from.tag() == 1)
      value.name = text(from);
    else
      from.skip();
  }
  return value;
}

Graph decode_graph(pbf_reader from) {
  Graph graph;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        graph.nodes.push_back(decode_node(message(from)));
        break;
      case 2:
        graph.name = text(from);
        break;
      case 5:
        graph.initializers.push_back(decode_tensor(message(from)));
        break;
      case 11:
        graph.inputs.push_back(decode_value(message(from)));
        break;
      case 12:
        graph.outputs.push_back(decode_value(message(from)));
        break;
      default:
        from.skip();
    }
  }
  return graph;
}

OperatorSet decode_opset(pbf_reader from) {
  OperatorSet opset;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        opset.domain = text(from);
        break;
      case 2:
        opset.version = integer(from);
        break;
      default:
        from.skip();
    }
  }
  return opset;
}

Model decode_model(pbf_reader from) {
  Model model;
  while (from.next()) {
    switch (from.tag()) {
      case 1:
        model.ir_version = integer(from);
        break;
      case 2:
        model.producer = text(from);
        break;
      case 7:
        model.graph = decode_graph(message(from));
        break;
      case 8:
        model.opsets.push_back(decode_opset(message(from)));
        break;
      case 14:
        model.metadata.push_back(decode_entry(message(from)));
        break;
      case 25:
        model.has_functions = true;
        from.skip();
        break;
      default:
        from.skip();
    }
  }
  return model;
}

}  // namespace

std::string encode(const Model& model) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_int64(1, model.ir_version);
  to.add_string(2, model.producer);
  to.add_message(7, encode(model.graph));
  for (const OperatorSet& opset : model.opsets) to.add_message(8, encode(opset));
  for (const Entry& entry : model.metadata) to.add_message(14, encode(entry));
  return bytes;
}

Model decode(std::string_view bytes) {
  if (bytes.size() > kMostBytes)
    throw core::Error("the file is too large, got " + std::to_string(bytes.size()) +
                      " bytes; expected at most 2 GiB, protobuf's limit");
  try {
    return decode_model(pbf_reader(bytes.data(), bytes.size()));
  } catch (const protozero::exception&) {
    throw core::Error("the file is damaged, or no ONNX file");
  }
}

}  // namespace trainctl::exporters::onnx

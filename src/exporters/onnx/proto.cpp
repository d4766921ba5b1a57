#include "exporters/onnx/proto.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/protobuf_writer.h"

namespace trainctl::exporters::onnx {
namespace {

// ---- writing

std::string encode(const Entry& entry) {
  core::ProtobufWriter to;
  to.bytes(1, entry.key);
  to.bytes(2, entry.value);
  return to.take();
}

std::string encode(const Tensor& tensor) {
  core::ProtobufWriter to;
  for (const std::int64_t dim : tensor.dims) to.integer(1, dim);
  to.integer(2, tensor.data_type);
  to.bytes(8, tensor.name);
  if (tensor.raw_data) to.bytes(9, *tensor.raw_data);
  for (const Entry& entry : tensor.external_data) to.bytes(13, encode(entry));
  if (tensor.is_external) to.integer(14, 1);
  return to.take();
}

std::string encode(const Attribute& attribute) {
  core::ProtobufWriter to;
  to.bytes(1, attribute.name);
  const auto type = [&](int number) { to.integer(20, number); };
  if (attribute.f) to.number(2, *attribute.f), type(1);
  if (attribute.i) to.integer(3, *attribute.i), type(2);
  if (attribute.s) to.bytes(4, *attribute.s), type(3);
  if (attribute.t) to.bytes(5, encode(*attribute.t)), type(4);
  if (!attribute.ints) return to.take();
  for (const std::int64_t value : *attribute.ints) to.integer(8, value);
  type(7);
  return to.take();
}

std::string encode(const Node& node) {
  core::ProtobufWriter to;
  for (const std::string& input : node.inputs) to.bytes(1, input);
  for (const std::string& output : node.outputs) to.bytes(2, output);
  to.bytes(3, node.name);
  to.bytes(4, node.op_type);
  for (const Attribute& attribute : node.attributes) to.bytes(5, encode(attribute));
  if (!node.domain.empty()) to.bytes(7, node.domain);
  return to.take();
}

std::string encode(const ValueInfo& value) {
  core::ProtobufWriter shape;
  for (const Dimension& dim : value.dims) {
    core::ProtobufWriter one;
    if (dim.name.empty())
      one.integer(1, dim.value);
    else
      one.bytes(2, dim.name);
    shape.bytes(1, one.take());
  }
  core::ProtobufWriter tensor;
  tensor.integer(1, value.data_type);
  tensor.bytes(2, shape.take());
  core::ProtobufWriter type;
  type.bytes(1, tensor.take());
  core::ProtobufWriter to;
  to.bytes(1, value.name);
  to.bytes(2, type.take());
  return to.take();
}

std::string encode(const Graph& graph) {
  core::ProtobufWriter to;
  for (const Node& node : graph.nodes) to.bytes(1, encode(node));
  to.bytes(2, graph.name);
  for (const Tensor& tensor : graph.initializers) to.bytes(5, encode(tensor));
  for (const ValueInfo& input : graph.inputs) to.bytes(11, encode(input));
  for (const ValueInfo& output : graph.outputs) to.bytes(12, encode(output));
  return to.take();
}

std::string encode(const OperatorSet& opset) {
  core::ProtobufWriter to;
  to.bytes(1, opset.domain);
  to.integer(2, opset.version);
  return to.take();
}

// ---- reading

/// One field of a message.
struct Field {
  std::uint64_t number = 0;
  core::WireType wire = core::WireType::varint;
  std::uint64_t value = 0;  // of varint, eight_bytes, four_bytes
  std::string_view content{};

  std::int64_t integer() const {
    if (wire != core::WireType::varint) throw wrong();
    return static_cast<std::int64_t>(value);
  }
  float real() const {
    if (wire != core::WireType::four_bytes) throw wrong();
    return std::bit_cast<float>(static_cast<std::uint32_t>(value));
  }
  std::string_view bytes() const {
    if (wire != core::WireType::bytes) throw wrong();
    return content;
  }
  std::string text() const { return std::string(bytes()); }
  core::Error wrong() const {
    return core::Error("it is damaged: field " + std::to_string(number) + " has another type");
  }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool is_at_end() const { return rest_.empty(); }

  Field field() {
    const std::uint64_t tag = varint();
    Field field{.number = tag >> 3U, .wire = static_cast<core::WireType>(tag & 7U)};
    if (field.number == 0) throw damaged();
    switch (field.wire) {
      case core::WireType::varint:
        field.value = varint();
        return field;
      case core::WireType::eight_bytes:
        field.value = fixed(8);
        return field;
      case core::WireType::four_bytes:
        field.value = fixed(4);
        return field;
      case core::WireType::bytes:
        field.content = take(varint());
        return field;
    }
    throw damaged();
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    throw damaged();
  }
  std::uint64_t fixed(std::size_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), size);
    return value;
  }

 private:
  static core::Error damaged() { return core::Error("it is damaged, or no ONNX file"); }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) throw damaged();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

template <class Use>
void for_each_field(std::string_view bytes, const Use& use) {
  for (Reader reader(bytes); !reader.is_at_end();) use(reader.field());
}

/// One number, or all of them packed.
template <class Number>
void append_integers(const Field& field, std::vector<Number>& to) {
  if (field.wire == core::WireType::varint) return to.push_back(static_cast<Number>(field.value));
  for (Reader reader(field.bytes()); !reader.is_at_end();) to.push_back(static_cast<Number>(reader.varint()));
}

void append_floats(const Field& field, std::vector<float>& to) {
  if (field.wire == core::WireType::four_bytes) return to.push_back(field.real());
  for (Reader reader(field.bytes()); !reader.is_at_end();)
    to.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(reader.fixed(4))));
}

Entry decode_entry(std::string_view bytes) {
  Entry entry;
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) entry.key = field.text();
    if (field.number == 2) entry.value = field.text();
  });
  return entry;
}

Tensor decode_tensor(std::string_view bytes) {
  Tensor tensor;
  for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        return append_integers(field, tensor.dims);
      case 2:
        return void(tensor.data_type = static_cast<std::int32_t>(field.integer()));
      case 4:
        return append_floats(field, tensor.float_data);
      case 5:
        return append_integers(field, tensor.int32_data);
      case 7:
        return append_integers(field, tensor.int64_data);
      case 8:
        return void(tensor.name = field.text());
      case 9:
        return void(tensor.raw_data = field.bytes());
      case 13:
        return tensor.external_data.push_back(decode_entry(field.bytes()));
      case 14:
        return void(tensor.is_external = field.integer() != 0);
      default:
        return;
    }
  });
  return tensor;
}

Attribute decode_attribute(std::string_view bytes) {
  Attribute attribute;
  for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        return void(attribute.name = field.text());
      case 2:
        return void(attribute.f = field.real());
      case 3:
        return void(attribute.i = field.integer());
      case 4:
        return void(attribute.s = field.text());
      case 5:
        return void(attribute.t = decode_tensor(field.bytes()));
      case 8:
        if (!attribute.ints) attribute.ints.emplace();
        return append_integers(field, *attribute.ints);
      default:
        return;
    }
  });
  return attribute;
}

Node decode_node(std::string_view bytes) {
  Node node;
  for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        return node.inputs.push_back(field.text());
      case 2:
        return node.outputs.push_back(field.text());
      case 3:
        return void(node.name = field.text());
      case 4:
        return void(node.op_type = field.text());
      case 5:
        return node.attributes.push_back(decode_attribute(field.bytes()));
      case 7:
        return void(node.domain = field.text());
      default:
        return;
    }
  });
  return node;
}

/// Types and shapes aren't needed to run a graph.
ValueInfo decode_value(std::string_view bytes) {
  ValueInfo value;
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) value.name = field.text();
  });
  return value;
}

Graph decode_graph(std::string_view bytes) {
  Graph graph;
  for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        return graph.nodes.push_back(decode_node(field.bytes()));
      case 2:
        return void(graph.name = field.text());
      case 5:
        return graph.initializers.push_back(decode_tensor(field.bytes()));
      case 11:
        return graph.inputs.push_back(decode_value(field.bytes()));
      case 12:
        return graph.outputs.push_back(decode_value(field.bytes()));
      default:
        return;
    }
  });
  return graph;
}

OperatorSet decode_opset(std::string_view bytes) {
  OperatorSet opset;
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) opset.domain = field.text();
    if (field.number == 2) opset.version = field.integer();
  });
  return opset;
}

}  // namespace

std::string encode(const Model& model) {
  core::ProtobufWriter to;
  to.integer(1, model.ir_version);
  to.bytes(2, model.producer);
  to.bytes(7, encode(model.graph));
  for (const OperatorSet& opset : model.opsets) to.bytes(8, encode(opset));
  for (const Entry& entry : model.metadata) to.bytes(14, encode(entry));
  return to.take();
}

Model decode(std::string_view bytes) {
  Model model;
  for_each_field(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1:
        return void(model.ir_version = field.integer());
      case 2:
        return void(model.producer = field.text());
      case 7:
        return void(model.graph = decode_graph(field.bytes()));
      case 8:
        return model.opsets.push_back(decode_opset(field.bytes()));
      case 14:
        return model.metadata.push_back(decode_entry(field.bytes()));
      case 25:
        return void(model.has_functions = true);
      default:
        return;
    }
  });
  return model;
}

}  // namespace trainctl::exporters::onnx

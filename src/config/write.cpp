#include "config/write.h"

#include <algorithm>

#include "core/text.h"

namespace trainctl::config {
namespace {

void write_keys(const Shape& shape, const void* value, Node& mapping);

void write_choice(const Shape& kinds, const void* one_of, Node& mapping) {
  const std::size_t index = kinds.count(one_of);
  mapping.add("kind", {}, Node::scalar(std::string(kinds.words[index])));
  write_keys(*kinds.alternatives[index], kinds.get(one_of, 0), mapping);
}

void write_keys(const Shape& shape, const void* value, Node& mapping) {
  for (std::size_t i = 0; i <= shape.keys.size(); ++i) {
    if (shape.choice && shape.choice_position == i)
      write_choice(*shape.choice->shape, shape.choice->in(value), mapping);
    if (i < shape.keys.size()) {
      const Key& key = shape.keys[i];
      mapping.add(std::string(key.name), {}, write_value(*key.shape, key.in(value)));
    }
  }
}

}  // namespace

Node write_value(const Shape& shape, const void* value) {
  switch (shape.form) {
    case Form::boolean:
      return Node::scalar(*static_cast<const bool*>(value) ? "true" : "false");
    case Form::integer:
      return Node::scalar(std::to_string(*static_cast<const std::int64_t*>(value)));
    case Form::number:
      return Node::scalar(core::format_number(*static_cast<const double*>(value)));
    case Form::text:
      return Node::scalar(*static_cast<const std::string*>(value), ScalarStyle::quoted);
    case Form::word:
      return Node::scalar(std::string(shape.words.at(shape.count(value))));
    case Form::optional:
      return shape.count(value) == 0 ? Node{} : write_value(*shape.element, shape.get(value, 0));
    case Form::auto_or:
      return shape.count(value) == 0 ? Node::scalar("auto") : write_value(*shape.element, shape.get(value, 0));
    case Form::list: {
      Node list = Node::sequence();
      for (std::size_t i = 0; i < shape.count(value); ++i)
        list.items.push_back(write_value(*shape.element, shape.get(value, i)));
      return list;
    }
    case Form::structure: {
      Node mapping = Node::mapping();
      write_keys(shape, value, mapping);
      return mapping;
    }
    case Form::one_of: {
      Node mapping = Node::mapping();
      write_choice(shape, value, mapping);
      return mapping;
    }
  }
  return {};
}

void adopt_origins(Node& complete, const Node& written) {
  complete.origin = written.origin;
  for (std::size_t i = 0; i < std::min(complete.items.size(), written.items.size()); ++i)
    adopt_origins(complete.items[i], written.items[i]);
  for (Node::Entry& entry : complete.entries)
    if (const Node::Entry* source = written.find_entry(entry.key)) {
      entry.key_origin = source->key_origin;
      adopt_origins(entry.value, source->value);
    }
}

}  // namespace trainctl::config

// `optimizer: adamw` is short for `optimizer: {kind: adamw}`.
#pragma once

#include "config/node.h"
#include "config/shape.h"

namespace trainctl::config {

/// Whether a plain word stands where a mapping with a `kind` is expected.
bool is_short_form(const Shape& shape, const Node& node);

/// `{kind: word}`, with the word's origin.
Node long_form(const Node& word);

/// Every short form in a tree written out, so that trees can be laid over each other key by key.
void expand_short_forms(const Shape& shape, Node& node);

}  // namespace trainctl::config

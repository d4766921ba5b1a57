// `optimizer: adamw` is short for `optimizer: {kind: adamw}`, and `files: a.csv` for `files: [a.csv]`.
#pragma once

#include "config/node.h"
#include "config/shape.h"

namespace trainctl::config {

/// Returns whether a plain word stands in place of a mapping that has a key for it.
bool is_short_form(const Shape& shape, const Node& node);

/// Returns `{kind: word}`, or the mapping with the struct's own key for it, with the word's origin.
Node long_form(const Shape& shape, const Node& word);

/// Returns whether a single item stands in place of a list.
bool is_single_item(const Shape& shape, const Node& node);

/// Returns `[item]`, with the item's origin.
Node list_of_one(const Node& item);

/// Writes out every short form in a tree, so that trees can be laid over each other key by key. A section without
/// `kind` has that of `under`, the tree over which this one will be laid; null: there is none.
void expand_short_forms(const Shape& shape, Node& node, const Node* under = nullptr);

}  // namespace trainctl::config

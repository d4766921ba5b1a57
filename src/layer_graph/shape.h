// The shape of one sample between two layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainctl::layer_graph {

/// A size that only the data may tell.
using Size = std::optional<std::int64_t>;

/// image: [features, height, width]. tokens: [length, features]. row: [features]. ids: [length] of token ids.
enum class Form { image, tokens, row, ids };

struct Shape {
  Form form = Form::row;
  Size features{};  // channels of an image
  Size height{};
  Size width{};
  Size length{};

  static Shape image(Size channels, Size height, Size width) { return {Form::image, channels, height, width, {}}; }
  static Shape tokens(Size length, Size features) { return {Form::tokens, features, {}, {}, length}; }
  static Shape row(Size features) { return {Form::row, features, {}, {}, {}}; }
  static Shape ids(Size length) { return {Form::ids, {}, {}, {}, length}; }

  /// Returns "an image [16, 32, 32]", with "?" for what only the data tells.
  std::string text() const;
  bool operator==(const Shape&) const = default;
};

}  // namespace trainctl::layer_graph

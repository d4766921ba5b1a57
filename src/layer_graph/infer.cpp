#include "layer_graph/infer.h"

#include <limits>
#include <map>
#include <utility>

#include "config/field.h"
#include "config/problems.h"
#include "config/read_scalar.h"
#include "core/checked.h"
#include "core/text.h"
#include "layer_graph/inspect.h"

namespace trainctl::layer_graph {
namespace {

template <class Layer>
inline constexpr bool kIsActivation = requires {
  Layer::function;
};

std::string text_of(Size size) {
  return size ? std::to_string(*size) : "?";
}

std::string list_of(std::initializer_list<Size> sizes) {
  std::string text;
  for (const Size size : sizes) text += (text.empty() ? "[" : ", ") + text_of(size);
  return text + "]";
}

/// Returns the product; the largest integer where that is more.
Size times(Size a, Size b) {
  if (!a || !b) return std::nullopt;
  return core::checked_product({*a, *b}).value_or(std::numeric_limits<std::int64_t>::max());
}

bool is_countable(const Shape& shape) {
  for (const Size size : {shape.features, shape.height, shape.width, shape.length})
    if (size.value_or(0) > config::kLargestCount) return false;
  return true;
}

bool differ(Size a, Size b) {
  return a && b && *a != *b;
}

/// Infers what one list gives.
class Walk {
 public:
  Walk(const DataSizes& data, Inference& result) : data_(data), result_(result) {}

  /// Returns the output of the list; nothing after a problem.
  std::optional<Shape> list(const LayerList& layers, Shape shape, const std::string& path) {
    if (!have_own_names(layers, path)) return std::nullopt;
    std::map<std::string, Shape> named;
    const std::map<std::string, Shape>* const outer = named_;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      named_ = &named;
      const std::optional<Shape> output = layer(layers[i], shape, config::join_path(path, i));
      named_ = outer;
      if (!output) return std::nullopt;
      if (layers[i].name) named.emplace(*layers[i].name, *output);
      shape = *output;
      if (outer == nullptr) result_.outputs.push_back(shape);
    }
    return shape;
  }

  std::optional<Shape> layer(const LayerConfig& config, const Shape& input, const std::string& path) {
    path_ = path;
    const std::optional<Shape> output = config.layer.visit([&](const auto& layer) { return output_of(layer, input); });
    if (output && !is_countable(*output))
      return problem(path + ".kind", "expected sizes of at most " + std::to_string(config::kLargestCount) +
                                         ", got more from " + input.text());
    return output;
  }

 private:
  std::nullopt_t problem(const std::string& path, std::string message) {
    result_.problems.push_back({{path}, std::move(message)});
    return std::nullopt;
  }
  std::nullopt_t problem(std::string message) { return problem(path_ + ".kind", std::move(message)); }
  std::nullopt_t wrong_input(std::string_view kind, std::string_view takes, const Shape& input,
                             std::string_view hint = "") {
    return problem(std::string(kind) + " takes " + std::string(takes) + ", got " + input.text() +
                   (hint.empty() ? "" : "; " + std::string(hint)));
  }

  /// Reports a name that is another layer's, or begins with that and a dot: their parameters could have one name.
  bool have_own_names(const LayerList& layers, const std::string& path) {
    std::map<std::string, std::size_t> owners;
    for (const bool has_name : {false, true})
      for (std::size_t i = 0; i < layers.size(); ++i)
        if (layers[i].name.has_value() == has_name) owners.emplace(name_of(layers[i], i), i);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string name = layers[i].name.value_or("");
      for (const std::string_view added : {"input_rounding", "weight_rounding", "output_rounding", "lora_A", "lora_B"})
        if (name == added || name.ends_with("." + std::string(added))) {
          problem(
              config::join_path(path, i) + ".name",
              "'" + std::string(added) + "' is the name of a part that qat or LoRA adds to a layer; choose another");
          return false;
        }
      for (std::size_t end = name.size(); end != 0 && end != std::string::npos; end = name.rfind('.', end - 1)) {
        const auto owner = owners.find(name.substr(0, end));
        if (owner == owners.end() || owner->second == i) continue;
        const bool is_number = !layers[owner->second].name;
        problem(config::join_path(path, i) + ".name",
                std::string(is_number ? "a layer without a name" : "another layer") + " of this list is called '" +
                    owner->first + "'" + (is_number ? ", its number" : "") +
                    (end < name.size() ? ", and the names of its parameters begin with '" + owner->first + ".'" : ""));
        return false;
      }
    }
    return true;
  }

  // Images.
  std::optional<Shape> output_of(const Conv2dLayer& layer, const Shape& input) {
    const std::optional<Shape> output = slide(layer, padding_of(layer), layer.dilation, input);
    if (!output) return std::nullopt;
    const Size channels = layer.channels.is_auto() ? data_.num_outputs : layer.channels.value;
    for (const Size sides : {input.features, channels})
      if (sides && *sides % layer.groups != 0)
        return problem(path_ + ".groups", "expected a divisor of the channels, " + text_of(input.features) +
                                              " in and " + text_of(channels) + " out, got " +
                                              std::to_string(layer.groups));
    return Shape::image(channels, output->height, output->width);
  }
  std::optional<Shape> output_of(const DepthwiseConv2dLayer& layer, const Shape& input) {
    return slide(layer, padding_of(layer), layer.dilation, input);
  }
  std::optional<Shape> output_of(const MaxPoolLayer& layer, const Shape& input) { return pool(layer, input); }
  std::optional<Shape> output_of(const AvgPoolLayer& layer, const Shape& input) { return pool(layer, input); }
  template <class Pool>
  std::optional<Shape> pool(const Pool& layer, const Shape& input) {
    if (2 * layer.padding > layer.kernel_size)
      return problem(path_ + ".padding", "expected at most half of kernel_size, " + std::to_string(layer.kernel_size) +
                                             ", got " + std::to_string(layer.padding));
    Pool with_stride = layer;
    with_stride.stride = layer.stride.value.value_or(layer.kernel_size);
    return slide(with_stride, layer.padding, 1, input);
  }
  std::optional<Shape> output_of(const ConvTranspose2dLayer& layer, const Shape& input) {
    if (input.form != Form::image) return wrong_input(layer.kind, "an image", input);
    if (layer.output_padding >= layer.stride)
      return problem(path_ + ".output_padding", "expected less than stride, " + std::to_string(layer.stride) +
                                                    ", got " + std::to_string(layer.output_padding));
    const auto side = [&](Size length) {
      return length ? Size((*length - 1) * layer.stride - 2 * layer.padding + layer.kernel_size + layer.output_padding)
                    : std::nullopt;
    };
    const Shape output = Shape::image(layer.channels.is_auto() ? data_.num_outputs : layer.channels.value,
                                      side(input.height), side(input.width));
    if (output.height.value_or(1) < 1 || output.width.value_or(1) < 1)
      return problem("nothing is left of " + input.text() + ": it becomes " + output.text());
    return output;
  }
  std::optional<Shape> output_of(const GlobalAvgPoolLayer& layer, const Shape& input) {
    if (input.form != Form::image)
      return wrong_input(layer.kind, "an image", input,
                         input.form == Form::tokens ? "mean_of_tokens takes tokens" : "");
    return layer.keep_dims ? Shape::image(input.features, 1, 1) : Shape::row(input.features);
  }
  std::optional<Shape> output_of(const UpsampleLayer& layer, const Shape& input) {
    if (input.form != Form::image) return wrong_input(layer.kind, "an image", input);
    return Shape::image(input.features, times(input.height, layer.scale_factor),
                        times(input.width, layer.scale_factor));
  }
  std::optional<Shape> output_of(const GroupNormLayer& layer, const Shape& input) {
    if (input.form != Form::image) return wrong_input(layer.kind, "an image", input);
    if (input.features && *input.features % layer.groups != 0)
      return problem(path_ + ".groups", "expected a divisor of the " + text_of(input.features) + " channels of " +
                                            input.text() + ", got " + std::to_string(layer.groups));
    return input;
  }
  std::optional<Shape> output_of(const BatchNormLayer& layer, const Shape& input) {
    if (input.form == Form::image || input.form == Form::row) return input;
    return wrong_input(layer.kind, "an image or a row", input, "layer_norm takes tokens");
  }

  template <class Layer>
  static std::int64_t padding_of(const Layer& layer) {
    return layer.padding.value.value_or(layer.dilation * (layer.kernel_size - 1) / 2);
  }
  static std::int64_t stride_of(std::int64_t stride) { return stride; }
  static std::int64_t stride_of(const config::AutoOr<std::int64_t>& stride) { return *stride.value; }

  /// Moves a window over an image.
  template <class Layer>
  std::optional<Shape> slide(const Layer& layer, std::int64_t padding, std::int64_t dilation, const Shape& input) {
    if (input.form != Form::image) return wrong_input(layer.kind, "an image", input);
    const std::int64_t reach = dilation * (layer.kernel_size - 1) + 1;
    const auto side = [&](Size length) {
      if (!length) return length;
      const std::int64_t room = *length + 2 * padding - reach;
      return Size(room < 0 ? 0 : room / stride_of(layer.stride) + 1);
    };
    const Shape output = Shape::image(input.features, side(input.height), side(input.width));
    if (output.height.value_or(1) < 1 || output.width.value_or(1) < 1)
      return problem("a kernel that reaches over " + std::to_string(reach) + " pixels doesn't fit into " +
                     input.text() + " with a padding of " + std::to_string(padding));
    return output;
  }

  // Rows and tokens.
  std::optional<Shape> output_of(const LinearLayer& layer, const Shape& input) {
    if (input.form == Form::image)
      return wrong_input(layer.kind, "a row or tokens", input, "put global_avg_pool or flatten before it");
    if (input.form == Form::ids) return wrong_input(layer.kind, "a row or tokens", input, "embedding comes first");
    Shape output = input;
    output.features = layer.features.is_auto() ? data_.num_outputs : layer.features.value;
    return output;
  }
  std::optional<Shape> output_of(const LayerNormLayer& layer, const Shape& input) { return normed(layer.kind, input); }
  std::optional<Shape> output_of(const RmsNormLayer& layer, const Shape& input) { return normed(layer.kind, input); }
  std::optional<Shape> normed(std::string_view kind, const Shape& input) {
    if (input.form == Form::ids) return wrong_input(kind, "numbers", input, "embedding comes first");
    return input;
  }
  std::optional<Shape> output_of(const EmbeddingLayer& layer, const Shape& input) {
    if (input.form != Form::ids) return wrong_input(layer.kind, "token ids", input);
    return Shape::tokens(input.length, layer.features);
  }
  std::optional<Shape> output_of(const PositionEmbeddingLayer& layer, const Shape& input) {
    if (input.form != Form::tokens) return wrong_input(layer.kind, "tokens", input);
    if (layer.length.value && input.length && *layer.length.value < *input.length)
      return problem(path_ + ".length", "expected a position for each of the " + text_of(input.length) + " tokens of " +
                                            input.text() + ", got " + std::to_string(*layer.length.value));
    return input;
  }
  std::optional<Shape> output_of(const AttentionLayer& layer, const Shape& input) {
    if (input.form != Form::tokens)
      return wrong_input(layer.kind, "tokens", input, input.form == Form::image ? "put image_to_tokens before it" : "");
    if (input.features && *input.features % layer.num_heads != 0)
      return problem(path_ + ".num_heads", "expected a divisor of the " + text_of(input.features) + " features of " +
                                               input.text() + ", got " + std::to_string(layer.num_heads));
    return input;
  }

  // Between forms.
  std::optional<Shape> output_of(const FlattenLayer& layer, const Shape& input) {
    switch (input.form) {
      case Form::image:
        return Shape::row(times(input.features, times(input.height, input.width)));
      case Form::row:
        return input;
      case Form::tokens:
      case Form::ids:
        break;
    }
    return wrong_input(layer.kind, "an image", input, "mean_of_tokens or first_token takes tokens");
  }
  std::optional<Shape> output_of(const ImageToTokensLayer& layer, const Shape& input) {
    if (input.form != Form::image) return wrong_input(layer.kind, "an image", input);
    return Shape::tokens(times(input.height, input.width), input.features);
  }
  std::optional<Shape> output_of(const MeanOfTokensLayer& layer, const Shape& input) { return row(layer.kind, input); }
  std::optional<Shape> output_of(const FirstTokenLayer& layer, const Shape& input) { return row(layer.kind, input); }
  std::optional<Shape> row(std::string_view kind, const Shape& input) {
    if (input.form != Form::tokens) return wrong_input(kind, "tokens", input);
    return Shape::row(input.features);
  }

  /// Layers that change no shape.
  template <class Layer>
  requires(kIsActivation<Layer> || std::same_as<Layer, GeluLayer> || std::same_as<Layer, LeakyReluLayer> ||
           std::same_as<Layer, EluLayer> || std::same_as<Layer, DropoutLayer> || std::same_as<Layer, DropPathLayer> ||
           std::same_as<Layer, LayerScaleLayer>) std::optional<Shape> output_of(const Layer& layer,
                                                                                const Shape& input) {
    if (input.form == Form::ids) return wrong_input(layer.kind, "numbers", input, "embedding comes first");
    return input;
  }

  std::optional<Shape> output_of(const PluggedLayer& layer, const Shape& input) {
    const LayerOutput output = layer.interface().output_of(layer.config(), input);
    if (const auto* takes = std::get_if<std::string>(&output)) return wrong_input(layer.plugged_name(), *takes, input);
    return std::get<Shape>(output);
  }

  // Layers of layers.
  std::optional<Shape> output_of(const SequenceLayer& layer, const Shape& input) {
    return list(layer.layers, input, path_ + ".layers");
  }
  std::optional<Shape> output_of(const RepeatLayer& layer, const Shape& input) {
    const std::string path = path_;
    Shape shape = input;
    for (std::int64_t i = 0; i < layer.times; ++i) {
      const std::optional<Shape> output = list(layer.layers, shape, path + ".layers");
      if (!output) return std::nullopt;
      if (*output == shape) return output;  // and so are those of the other times
      shape = *output;
    }
    return shape;
  }
  std::optional<Shape> output_of(const ResidualLayer& layer, const Shape& input) {
    const std::string path = path_;
    const std::optional<Shape> branch = list(layer.layers, input, path + ".layers");
    if (!branch) return std::nullopt;
    const std::optional<Shape> shortcut = list(layer.shortcut, input, path + ".shortcut");
    if (!shortcut) return std::nullopt;
    if (!are_alike(*branch, *shortcut))
      return problem(path + ".kind",
                     "the branch gives " + branch->text() + ", and the shortcut " + shortcut->text() +
                         (layer.shortcut.empty() ? "; give it a `shortcut` that changes the shape" : ""));
    return merged(*branch, *shortcut);
  }
  template <Combines Layer>
  std::optional<Shape> output_of(const Layer& layer, const Shape& input) {
    const std::string path = path_;
    const std::optional<std::vector<Shape>> operands = operands_of(layer, input);
    if (!operands) return std::nullopt;
    Shape result = operands->front();
    for (std::size_t i = 1; i < operands->size(); ++i) {
      const Shape& next = (*operands)[i];
      const std::optional<Shape> both = combine(layer, result, next);
      if (!both)
        return problem(path + ".kind", std::string(layer.kind) + ": operand " + std::to_string(i + 1) + " is " +
                                           next.text() + ", and those before it give " + result.text());
      result = *both;
    }
    return result;
  }

  template <class Layer>
  std::optional<std::vector<Shape>> operands_of(const Layer& layer, const Shape& input) {
    const std::string path = path_;
    const std::map<std::string, Shape>* const named = named_;
    std::vector<Shape> operands;
    for (std::size_t i = 0; i < layer.branches.size(); ++i) {
      const std::optional<Shape> output = list(layer.branches[i], input, config::join_path(path + ".branches", i));
      if (!output) return std::nullopt;
      operands.push_back(*output);
    }
    if (layer.branches.empty()) operands.push_back(input);
    for (std::size_t i = 0; i < layer.with.size(); ++i) {
      const auto found = named->find(layer.with[i]);
      if (found == named->end()) return no_such_layer(config::join_path(path + ".with", i), layer.with[i], *named);
      operands.push_back(found->second);
    }
    if (operands.size() < 2)
      return problem(path + ".kind", std::string(layer.kind) + " needs two operands: branches, or names in `with`");
    return operands;
  }
  std::nullopt_t no_such_layer(const std::string& path, const std::string& name,
                               const std::map<std::string, Shape>& named) {
    std::vector<std::string> known;
    for (const auto& [other, shape] : named) known.push_back(other);
    const std::string meant = config::did_you_mean(name, known);
    return problem(path, "no earlier layer of this list is called '" + name + "'" +
                             (!meant.empty()  ? "; " + meant
                              : known.empty() ? "; a layer gets a name by its key `name`"
                                              : "; named are " + core::list_words(known)));
  }

  static std::optional<Shape> combine(const AddLayer&, const Shape& a, const Shape& b) {
    return are_alike(a, b) ? std::optional(merged(a, b)) : std::nullopt;
  }
  /// An image of one pixel multiplies every pixel.
  static std::optional<Shape> combine(const MultiplyLayer&, const Shape& a, const Shape& b) {
    const auto is_pixel = [](const Shape& s) { return s.form == Form::image && s.height == 1 && s.width == 1; };
    if (is_pixel(b) && a.form == Form::image && !differ(a.features, b.features)) return a;
    if (is_pixel(a) && b.form == Form::image && !differ(a.features, b.features)) return b;
    return are_alike(a, b) ? std::optional(merged(a, b)) : std::nullopt;
  }
  static std::optional<Shape> combine(const ConcatLayer&, const Shape& a, const Shape& b) {
    Shape same = b;
    same.features = a.features;
    if (!are_alike(a, same)) return std::nullopt;
    Shape both = merged(a, same);
    both.features = a.features && b.features ? Size(*a.features + *b.features) : std::nullopt;
    return both;
  }

  static bool are_alike(const Shape& a, const Shape& b) {
    return a.form == b.form && !differ(a.features, b.features) && !differ(a.height, b.height) &&
           !differ(a.width, b.width) && !differ(a.length, b.length);
  }
  static Shape merged(const Shape& a, const Shape& b) {
    const auto known = [](Size x, Size y) { return x ? x : y; };
    return {a.form, known(a.features, b.features), known(a.height, b.height), known(a.width, b.width),
            known(a.length, b.length)};
  }

  const DataSizes& data_;
  Inference& result_;
  std::string path_;                                     // of the layer that is looked at
  const std::map<std::string, Shape>* named_ = nullptr;  // layers of the list that is walked
};

}  // namespace

std::string Shape::text() const {
  switch (form) {
    case Form::image:
      return "an image " + list_of({features, height, width});
    case Form::tokens:
      return "tokens " + list_of({length, features});
    case Form::row:
      return "a row " + list_of({features});
    case Form::ids:
      break;
  }
  return "token ids " + list_of({length});
}

Inference infer(const LayerList& layers, const Shape& input, const DataSizes& data, const std::string& path) {
  Inference result;
  Walk(data, result).list(layers, input, path);
  return result;
}

}  // namespace trainctl::layer_graph

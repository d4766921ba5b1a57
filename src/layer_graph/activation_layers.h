// Activations of a list of layers. Part of layer_graph/config.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "config/field.h"

namespace trainctl::layer_graph {

/// Activations without settings.
enum class Activation { relu, relu6, silu, mish, sigmoid, tanh, hardswish, hardsigmoid, softplus };
inline constexpr std::array<std::string_view, 9> kActivations{"relu", "relu6",     "silu",        "mish",    "sigmoid",
                                                              "tanh", "hardswish", "hardsigmoid", "softplus"};

template <Activation Function>
struct ActivationLayer {
  static constexpr std::string_view kind = kActivations[static_cast<std::size_t>(Function)];
  static constexpr Activation function = Function;
  static constexpr auto fields() { return config::Fields{}; }
};

enum class GeluForm { none, tanh };

struct GeluLayer {
  static constexpr std::string_view kind = "gelu";
  GeluForm approximate = GeluForm::none;
  static constexpr auto fields() {
    return config::Fields{config::field<&GeluLayer::approximate>("`none` is exact; `tanh` is GPT-2's approximation.")};
  }
};

struct LeakyReluLayer {
  static constexpr std::string_view kind = "leaky_relu";
  double negative_slope = 0.01;
  static constexpr auto fields() {
    return config::Fields{config::field<&LeakyReluLayer::negative_slope>("Slope below 0.")};
  }
};

struct EluLayer {
  static constexpr std::string_view kind = "elu";
  double alpha = 1;
  static constexpr auto fields() {
    return config::Fields{config::field<&EluLayer::alpha>("Minus the limit for large negative inputs.")};
  }
};

}  // namespace trainctl::layer_graph

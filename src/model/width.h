// The width of a network, and the same network at another width: for muP, and its check of coordinates. Part of
// model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace trainctl::model {

/// A size that the width multiplies: its key, and its value.
struct WideSize {
  std::string key;
  std::int64_t* value;
};

namespace detail {

inline void add_wide_size(std::vector<WideSize>& sizes, std::string key, std::int64_t& value) {
  sizes.push_back({std::move(key), &value});
}
inline void add_wide_size(std::vector<WideSize>& sizes, std::string key, config::AutoOr<std::int64_t>& value) {
  if (value.value) sizes.push_back({std::move(key), &*value.value});
}

}  // namespace detail

/// Returns the sizes that grow with a network's width, the width itself first. Heads keep their size, so that their
/// number grows. Empty: the network's kind has no key for its width.
template <class... Networks>
std::vector<WideSize> wide_sizes(config::OneOf<Networks...>& network) {
  std::vector<WideSize> sizes;
  std::visit(
      [&](auto& config) {
        if constexpr (requires {
                        config.hidden;
                        config.num_classes;
                        config.hidden.size();
                      }) {
          for (std::size_t i = 0; i < config.hidden.size(); ++i)
            detail::add_wide_size(sizes, "hidden[" + std::to_string(i) + "]", config.hidden[i]);
        }
        if constexpr (requires { config.widen_factor; })
          detail::add_wide_size(sizes, "widen_factor", config.widen_factor);
        if constexpr (requires { config.hidden_size; }) detail::add_wide_size(sizes, "hidden_size", config.hidden_size);
        if constexpr (requires { config.num_heads; }) detail::add_wide_size(sizes, "num_heads", config.num_heads);
        if constexpr (requires { config.num_key_value_heads; })
          detail::add_wide_size(sizes, "num_key_value_heads", config.num_key_value_heads);
        if constexpr (requires { config.intermediate_size; })
          detail::add_wide_size(sizes, "intermediate_size", config.intermediate_size);
      },
      network.value);
  return sizes;
}

/// Returns the network's width; none: its kind has no key for it.
template <class... Networks>
std::optional<std::int64_t> width_of(config::OneOf<Networks...> network) {
  const std::vector<WideSize> sizes = wide_sizes(network);
  return sizes.empty() ? std::nullopt : std::optional(*sizes.front().value);
}

/// Returns the key of the first size that has no whole number at this width; empty: the network can have the width.
template <class... Networks>
std::string size_without(config::OneOf<Networks...> network, std::int64_t width) {
  const std::vector<WideSize> sizes = wide_sizes(network);
  if (sizes.empty()) return "kind";
  const std::int64_t own = *sizes.front().value;
  for (const WideSize& size : sizes)
    if (own <= 0 || *size.value * width % own != 0 || *size.value * width / own < 1) return size.key;
  return {};
}

/// Returns the network at another width, which size_without() finds nothing against.
template <class... Networks>
config::OneOf<Networks...> at_width(config::OneOf<Networks...> network, std::int64_t width) {
  const std::vector<WideSize> sizes = wide_sizes(network);
  const std::int64_t own = *sizes.front().value;
  for (const WideSize& size : sizes) *size.value = *size.value * width / own;
  return network;
}

}  // namespace trainctl::model

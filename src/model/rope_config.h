// How rotary positions reach beyond the pretraining's length. Part of model/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace trainctl::model {

struct PlainRopeConfig {
  static constexpr std::string_view kind = "none";
  static constexpr auto fields() { return config::Fields{}; }
};

/// Position interpolation (https://arxiv.org/abs/2306.15595).
struct LinearRopeConfig {
  static constexpr std::string_view kind = "linear";
  double factor = 1;
  static constexpr auto fields() {
    return config::Fields{config::field<&LinearRopeConfig::factor>("Positions are divided by this.", config::positive)};
  }
};

/// NTK-aware scaling that grows with the sequence once it is longer than max_position_embeddings.
struct DynamicRopeConfig {
  static constexpr std::string_view kind = "dynamic";
  double factor = 1;
  static constexpr auto fields() {
    return config::Fields{config::field<&DynamicRopeConfig::factor>(
        "Factor of the base's growth, for sequences longer than max_position_embeddings.", config::at_least(1))};
  }
};

/// https://arxiv.org/abs/2309.00071
struct YarnRopeConfig {
  static constexpr std::string_view kind = "yarn";
  double factor = 1;
  std::int64_t original_max_position_embeddings = 2048;
  double beta_fast = 32;
  double beta_slow = 1;
  std::optional<double> attention_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  bool truncate = true;

  static constexpr auto fields() {
    using config::field;
    using C = YarnRopeConfig;
    return config::Fields{
        field<&C::factor>("How many times longer sequences become.", config::positive),
        field<&C::original_max_position_embeddings>("Longest sequence of the pretraining.", config::at_least(1)),
        field<&C::beta_fast>("Rotations above which a frequency is left alone.", config::positive),
        field<&C::beta_slow>("Rotations below which a frequency is interpolated in full.", config::positive),
        field<&C::attention_factor>("Scales cosines and sines; null takes the paper's 0.1 ln(factor) + 1.",
                                    config::positive),
        field<&C::mscale>("Multiplies the logarithm there, in the numerator; with mscale_all_dim only.",
                          config::positive),
        field<&C::mscale_all_dim>("The same in a denominator.", config::positive),
        field<&C::truncate>("Round the range of interpolated frequencies to whole dimensions."),
    };
  }
};

/// https://arxiv.org/abs/2402.13753
struct LongRopeConfig {
  static constexpr std::string_view kind = "longrope";
  std::vector<double> short_factor;
  std::vector<double> long_factor;
  std::int64_t original_max_position_embeddings = 4096;
  std::optional<double> factor;
  std::optional<double> attention_factor;

  static constexpr auto fields() {
    using config::field;
    using C = LongRopeConfig;
    return config::Fields{
        field<&C::short_factor>("Divides each frequency, for sequences up to original_max_position_embeddings.",
                                config::required & config::non_empty & config::positive),
        field<&C::long_factor>("The same for longer ones.", config::required & config::non_empty & config::positive),
        field<&C::original_max_position_embeddings>("Longest sequence of the pretraining.", config::at_least(2)),
        field<&C::factor>(
            "How many times longer sequences become; null: max_position_embeddings / original_max_position_embeddings.",
            config::positive),
        field<&C::attention_factor>("Scales cosines and sines; null follows from factor.", config::positive),
    };
  }
};

/// Llama 3.1 (https://arxiv.org/abs/2407.21783).
struct Llama3RopeConfig {
  static constexpr std::string_view kind = "llama3";
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;

  static constexpr auto fields() {
    using config::field;
    using C = Llama3RopeConfig;
    return config::Fields{
        field<&C::factor>("Low frequencies are divided by this.", config::positive),
        field<&C::low_freq_factor>("Wavelengths above original_max_position_embeddings / this are low frequencies.",
                                   config::positive),
        field<&C::high_freq_factor>("Wavelengths below original_max_position_embeddings / this are left alone.",
                                    config::positive),
        field<&C::original_max_position_embeddings>("Longest sequence of the pretraining.", config::at_least(1)),
    };
  }
};

using RopeScalingConfig = config::OneOf<PlainRopeConfig, LinearRopeConfig, DynamicRopeConfig, YarnRopeConfig,
                                        LongRopeConfig, Llama3RopeConfig>;

}  // namespace trainctl::model

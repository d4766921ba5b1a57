// `amp:`: the precision that operators compute in; parameters and their updates stay fp32.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl::amp {

/// fp8: as bf16, and products of linear layers in eight bits.
enum class Precision { fp32, tf32, bf16, fp16, fp8 };

/// torch.amp.GradScaler: halved at an overflow, doubled after a while without one.
struct DynamicScalingConfig {
  static constexpr std::string_view kind = "dynamic";
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;

  static constexpr auto fields() {
    using config::field;
    using C = DynamicScalingConfig;
    return config::Fields{
        field<&C::init_scale>("First scale of the loss.", config::positive),
        field<&C::growth_factor>("Multiplies the scale after growth_interval steps without overflow.",
                                 config::at_least(1)),
        field<&C::backoff_factor>("Multiplies the scale at an overflow.", config::positive & config::below_one),
        field<&C::growth_interval>("Steps without overflow before the scale grows.", config::at_least(1)),
    };
  }
};

struct StaticScalingConfig {
  static constexpr std::string_view kind = "static";
  double scale = 1024;

  static constexpr auto fields() {
    return config::Fields{config::field<&StaticScalingConfig::scale>(
        "Scale of the loss; overflows still skip their step.", config::positive)};
  }
};

struct AmpConfig {
  static constexpr std::string_view short_form = "mode";  // amp: bf16
  Precision mode = Precision::fp32;
  config::OneOf<DynamicScalingConfig, StaticScalingConfig> loss_scaling;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&AmpConfig::mode>("fp32; tf32 (NVIDIA's 19-bit matrix units); bf16; fp16 (with loss scaling); fp8 (bf16, "
                                "and linear layers in "
                                "eight bits)."),
        field<&AmpConfig::loss_scaling>("Keeps small fp16 gradients from becoming zero. Used by fp16 alone."),
    };
  }
};

}  // namespace trainctl::amp

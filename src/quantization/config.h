// `quantization:`: training for eight bits, and what `trainctl quantize` takes where it isn't told otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"

namespace trainctl::quantization {

/// LibTorch's engines. auto: onednn where the CPU multiplies bytes without overflow (VNNI), else x86.
enum class QuantizationBackend { auto_, x86, onednn, fbgemm, qnnpack };

/// How the range of an activation is found. min_max: all that was seen. moving_average: of batches' smallest and
/// largest. histogram: least squared error. entropy: least Kullback-Leibler divergence. percentile: without outliers.
enum class RangeFrom { min_max, moving_average, histogram, entropy, percentile };

/// Where an activation's levels lie. affine: from its least to its largest value. symmetric: as far below 0 as above
/// it, which TensorRT wants.
enum class ActivationScheme { affine, symmetric };

/// How `trainctl quantize` rounds. dynamic: products round each batch's activations by its range. static_: activations
/// have levels found in calibration. weight_only: activations stay floats. qat: static_, with the levels that training
/// found.
enum class QuantizationMethod { dynamic, static_, weight_only, qat };

/// Inputs that share a scale of weights; 0: a whole row, with eight bits alone.
inline constexpr std::int64_t kGroupSizes[] = {0, 32, 64, 128, 256};

/// Source of the scales in training. observer: ranges. learned: https://arxiv.org/abs/1902.08153.
enum class ScaleSource { observer, learned };

struct NoQuantizedTrainingConfig {
  static constexpr std::string_view kind = "none";
  static constexpr auto fields() { return config::Fields{}; }
};

/// Quantization-aware training: https://arxiv.org/abs/1712.05877.
struct QatConfig {
  static constexpr std::string_view kind = "qat";
  std::int64_t start_step = 0;
  std::optional<std::int64_t> freeze_observers_step;
  std::optional<std::int64_t> freeze_batch_norm_step;
  ScaleSource scale = ScaleSource::observer;

  static constexpr auto fields() {
    using config::field;
    using C = QatConfig;
    return config::Fields{
        field<&C::start_step>("Updates before values are rounded; ranges are watched from the first.",
                              config::at_least(0)),
        field<&C::freeze_observers_step>("From this update on ranges stay; null: they move to the end.",
                                         config::at_least(1)),
        field<&C::freeze_batch_norm_step>(
            "From this update on BatchNorm uses, and keeps, its running statistics; null: never.", config::at_least(1)),
        field<&C::scale>("Where the distance of two levels comes from: ranges of the `observer`, or `learned` with the "
                         "weights (LSQ)."),
    };
  }
};

struct QuantizationConfig {
  config::OneOf<NoQuantizedTrainingConfig, QatConfig> training;
  QuantizationBackend backend = QuantizationBackend::auto_;
  config::AutoOr<std::int64_t> activation_bits;
  ActivationScheme activation_scheme = ActivationScheme::affine;
  RangeFrom observer = RangeFrom::histogram;
  double percentile = 99.99;
  std::vector<std::string> skip_modules{};
  bool engine_workarounds = true;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = QuantizationConfig;
    return config::Fields{
        choice<&C::training>("Training for eight bits: `none`, or `qat`, with rounded weights and activations."),
        field<&C::backend>("LibTorch's engine for eight bits: `x86` and `fbgemm` for servers, `onednn` where the CPU "
                           "has VNNI, `qnnpack` for ARM; `auto` takes the faster one of this CPU."),
        field<&C::activation_bits>("Bits of an activation, 7 or 8; `auto` takes 7 where the engine's sums of two "
                                   "products would overflow.",
                                   config::between(7, 8)),
        field<&C::activation_scheme>(
            "Levels of activations: `affine` uses all of them for the values that occur; `symmetric` has "
            "as many below 0 as above, in 8 bits, which exports for TensorRT need."),
        field<&C::observer>("What decides the range of an activation in calibration."),
        field<&C::percentile>("Share of an activation's values inside its range, for observer: percentile.",
                              config::between(50, 100)),
        field<&C::skip_modules>("Layers that aren't quantized, by name: `fc` is every layer whose name is that or ends "
                                "in `.fc`; `*` stands for any characters, `?` for one."),
        field<&C::engine_workarounds>("Scales for which all engines round alike, and on CPUs with AVX2 but no VNNI "
                                      "trainctl's own product of bytes; `false`: LibTorch's engines alone."),
    };
  }
};

}  // namespace trainctl::quantization

// Products with a matrix in eight bits, or with weights of eight or four.
#pragma once

#include <memory>

#include "model/layers/low_rank.h"
#include "model/model.h"
#include "quantization/layer/quantized_layer.h"
#include "quantization/training.h"

namespace trainctl::quantization {

/// Activations rounded by what each batch has.
std::unique_ptr<QuantizedLayer> dynamic_linear(model::MatrixLayer& layer, QuantizationBackend backend);

struct StaticLinearOptions {
  QuantizationBackend backend;
  ObserverOptions observer;
  const TrainedLevels* trained = nullptr;  // outlives convert(); null: levels come from calibration
  bool engine_workarounds = true;          // quantization.engine_workarounds
};
/// A product whose activations are rounded to levels found in calibration, or in training.
std::unique_ptr<QuantizedLayer> static_linear(model::MatrixLayer& layer, const StaticLinearOptions& options);

/// Activations stay floats. bits 8 or 4; of each row, `group_size` inputs share a scale (and with 4 bits an offset);
/// 0: all of them.
struct WeightOnlyFormat {
  std::int64_t bits = 8;
  std::int64_t group_size = 0;
};
/// What the format can't hold is an Error: why it couldn't, "" where it can.
std::string refusal(const WeightOnlyFormat& format, std::int64_t in_features, std::int64_t out_features);
std::unique_ptr<QuantizedLayer> weight_only_linear(model::MatrixLayer& layer, const WeightOnlyFormat& format);

/// [out, in], a view of the layer's parameter.
at::Tensor matrix_of(model::MatrixLayer& layer);

}  // namespace trainctl::quantization

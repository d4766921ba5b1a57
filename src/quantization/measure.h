// What quantization does to a model: how fast it is, and where it errs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"
#include "quantization/quantization.h"

namespace trainctl::quantization {

struct Latency {
  double batch_1_ms = 0;
  std::int64_t best_batch = 1;  // whose samples take the least time each
  double best_ms_per_sample = 0;
};

/// Measures median times of forward passes with the first 1, 4, 16, … and all samples of `input`. Calls `renew` before
/// each size, because oneDNN keeps its preparation for the first size that it gets. Each time is therefore that of a
/// process that serves one size.
Latency measure_latency(model::Model& model, const model::ModelInput& input, const std::function<void()>& renew = {});

/// ‖quantized − float‖ / ‖float‖ of what a block gives.
struct BlockError {
  std::string block;
  double relative_error = 0;
};
/// Returns the errors of all blocks, each after the quantized blocks before it. Call it after convert() and before
/// finish().
std::vector<BlockError> block_errors(Quantization& quantization, model::Model& model, const model::ModelInput& input);

using NamedMetrics = std::vector<std::pair<std::string, double>>;
struct LayerError {
  std::string layer;
  double relative_error = 0;  // at the model's output
  NamedMetrics metrics{};
};
/// Each layer quantized alone, worst first. After convert(), before finish(). `metrics` evaluates the model as it is.
std::vector<LayerError> sweep(Quantization& quantization, model::Model& model, const model::ModelInput& input,
                              const std::function<NamedMetrics()>& metrics);

/// Size, latency and metrics of a model.
struct ModelCost {
  std::int64_t bytes = 0;
  Latency latency;
  NamedMetrics metrics;
};
struct QuantizationReport {
  ModelCost before;
  ModelCost after;
  std::vector<BlockError> blocks;
  std::vector<LayerError> layers;  // of a sweep
  std::int64_t sweep_samples = 0;  // on which the sweep's metrics are, a part of the evaluation set
  NamedMetrics sweep_before{};     // of the float model on those samples
};
/// For a person.
std::string as_table(const QuantizationReport& report, const Quantization& quantization);
/// Returns the report as JSON: {"size": …, "latency": …, "metrics": …, "blocks": […], "layers": […]}.
std::string as_json(const QuantizationReport& report, const Quantization& quantization);
/// Returns the report as an HTML page.
std::string as_page(const QuantizationReport& report, const Quantization& quantization, const std::string& experiment);

}  // namespace trainctl::quantization

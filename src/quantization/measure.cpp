#include "quantization/measure.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "core/median.h"

namespace trainctl::quantization {
namespace {

constexpr double kSecondsForEach = 0.6;
constexpr std::size_t kFewestRuns = 5;

model::ModelInput first_samples(const model::ModelInput& input, std::int64_t count) {
  const auto take = [count](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, 0, count) : tensor;
  };
  return {.values = take(input.values),
          .token_types = take(input.token_types),
          .key_mask = take(input.key_mask),
          .documents = take(input.documents)};
}

double median_ms(model::Model& model, const model::ModelInput& input, const std::function<void()>& renew) {
  if (renew) renew();
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  model.forward(input);
  const auto begin = Clock::now();
  while (times.size() < kFewestRuns || std::chrono::duration<double>(Clock::now() - begin).count() < kSecondsForEach) {
    const auto start = Clock::now();
    model.forward(input);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return core::median(std::move(times));
}

double relative_error(const at::Tensor& value, const at::Tensor& reference) {
  const at::Tensor wanted = reference.to(at::kDouble);
  const double size = wanted.norm().item<double>();
  const double error = value.to(at::kDouble).sub(wanted).norm().item<double>();
  return size > 0 ? error / size : error;
}

at::Tensor as_float(const at::Tensor& value) {
  return value.is_quantized() ? value.dequantize() : value;
}

/// Returns the output of each block.
std::vector<at::Tensor> block_outputs(model::Model& model, const model::ModelInput& input) {
  std::vector<at::Tensor> outputs;
  const model::BlockRunner before = model.block_runner();
  model.set_block_runner(
      [&](const model::Block& block, const at::Tensor& value, const model::SequenceContext& context) {
        const at::Tensor result = block.forward(value, context);
        outputs.push_back(as_float(result).clone());
        return result;
      });
  model.forward(input);
  model.set_block_runner(before);
  return outputs;
}

bool all_layers(const std::string&) {
  return true;
}
bool no_layer(const std::string&) {
  return false;
}

}  // namespace

Latency measure_latency(model::Model& model, const model::ModelInput& input, const std::function<void()>& renew) {
  const at::NoGradGuard no_grad;
  const std::int64_t most = input.values.size(0);
  Latency latency;
  latency.batch_1_ms = latency.best_ms_per_sample = median_ms(model, first_samples(input, 1), renew);
  for (std::int64_t batch = 4; batch < 4 * most; batch *= 4) {
    const std::int64_t size = std::min(batch, most);
    const double ms = median_ms(model, first_samples(input, size), renew) / static_cast<double>(size);
    if (ms >= latency.best_ms_per_sample) continue;
    latency.best_ms_per_sample = ms;
    latency.best_batch = size;
  }
  return latency;
}

std::vector<BlockError> block_errors(Quantization& quantization, model::Model& model, const model::ModelInput& input) {
  const at::NoGradGuard no_grad;
  quantization.use(no_layer);
  const std::vector<at::Tensor> wanted = block_outputs(model, input);
  quantization.use(all_layers);
  const std::vector<at::Tensor> given = block_outputs(model, input);
  std::vector<BlockError> errors;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    errors.push_back({.block = model.blocks()[i].name, .relative_error = relative_error(given[i], wanted[i])});
  return errors;
}

std::vector<LayerError> sweep(Quantization& quantization, model::Model& model, const model::ModelInput& input,
                              const std::function<NamedMetrics()>& metrics) {
  const at::NoGradGuard no_grad;
  quantization.use(no_layer);
  const at::Tensor wanted = model.forward(input);
  std::vector<LayerError> errors;
  for (const LayerChoice& layer : quantization.layers()) {
    if (!layer.kept_because.empty()) continue;
    quantization.use([&](const std::string& name) { return name == layer.name; });
    errors.push_back({.layer = layer.name,
                      .relative_error = relative_error(as_float(model.forward(input)), wanted),
                      .metrics = metrics()});
  }
  quantization.use(all_layers);
  std::stable_sort(errors.begin(), errors.end(), [](const LayerError& left, const LayerError& right) {
    return left.relative_error > right.relative_error;
  });
  return errors;
}

}  // namespace trainctl::quantization

#include "model/layers/rope.h"

#include <ATen/TracerMode.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/error.h"

namespace trainctl::model {
namespace {

/// Input and output of the scaling functions.
struct Rope {
  const LlamaConfig& config;
  std::int64_t longest;
  std::vector<double> frequencies;  // [d/2], radians per position
  double attention_factor = 1;

  std::int64_t size() const { return config.size_of_head(); }
};

std::vector<double> plain_frequencies(double theta, std::int64_t size) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < size; i += 2)
    frequencies.push_back(1 / std::pow(theta, static_cast<double>(i) / static_cast<double>(size)));
  return frequencies;
}

void scale(Rope&, const PlainRopeConfig&) {}

void scale(Rope& rope, const LinearRopeConfig& linear) {
  for (double& frequency : rope.frequencies) frequency /= linear.factor;
}

void scale(Rope& rope, const DynamicRopeConfig& dynamic) {
  const auto trained = static_cast<double>(rope.config.max_position_embeddings);
  const double now = std::max(static_cast<double>(rope.longest), trained);
  const auto size = static_cast<double>(rope.size());
  const double growth = dynamic.factor * now / trained - (dynamic.factor - 1);
  rope.frequencies = plain_frequencies(rope.config.rope_theta * std::pow(growth, size / (size - 2)), rope.size());
}

double yarn_attention_factor(const YarnRopeConfig& yarn) {
  if (yarn.attention_factor) return *yarn.attention_factor;
  const auto mscale = [&](double by) { return yarn.factor <= 1 ? 1.0 : 0.1 * by * std::log(yarn.factor) + 1; };
  return yarn.mscale && yarn.mscale_all_dim ? mscale(*yarn.mscale) / mscale(*yarn.mscale_all_dim) : mscale(1);
}

void scale(Rope& rope, const YarnRopeConfig& yarn) {
  const auto size = static_cast<double>(rope.size());
  const auto dimension_of = [&](double rotations) {
    return size *
           std::log(static_cast<double>(yarn.original_max_position_embeddings) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.config.rope_theta));
  };
  double low = dimension_of(yarn.beta_fast);
  double high = dimension_of(yarn.beta_slow);
  if (yarn.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < rope.frequencies.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rope.frequencies[i] *= interpolated / yarn.factor + (1 - interpolated);
  }
  rope.attention_factor = yarn_attention_factor(yarn);
}

void scale(Rope& rope, const LongRopeConfig& longrope) {
  const auto original = static_cast<double>(longrope.original_max_position_embeddings);
  const std::vector<double>& factors =
      static_cast<double>(rope.longest) > original ? longrope.long_factor : longrope.short_factor;
  if (factors.size() != rope.frequencies.size())
    throw core::Error("model.rope_scaling has " + std::to_string(factors.size()) + " factors, but half of a head has " +
                      std::to_string(rope.frequencies.size()) + " elements");
  for (std::size_t i = 0; i < factors.size(); ++i) rope.frequencies[i] /= factors[i];
  const double factor = longrope.factor.value_or(static_cast<double>(rope.config.max_position_embeddings) / original);
  rope.attention_factor =
      longrope.attention_factor.value_or(factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original)));
}

void scale(Rope& rope, const Llama3RopeConfig& llama3) {
  const auto original = static_cast<double>(llama3.original_max_position_embeddings);
  for (double& frequency : rope.frequencies) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < original / llama3.high_freq_factor) continue;
    if (wavelength > original / llama3.low_freq_factor) {
      frequency /= llama3.factor;
      continue;
    }
    const double smooth =
        (original / wavelength - llama3.low_freq_factor) / (llama3.high_freq_factor - llama3.low_freq_factor);
    frequency = (1 - smooth) * frequency / llama3.factor + smooth * frequency;
  }
}

}  // namespace

RopeTables rope_tables(const LlamaConfig& config, const at::Tensor& positions, std::int64_t longest) {
  Rope rope{
      .config = config, .longest = longest, .frequencies = plain_frequencies(config.rope_theta, config.size_of_head())};
  config.rope_scaling.visit([&](const auto& scaling) { scale(rope, scaling); });
  const std::vector<float> frequencies(rope.frequencies.begin(), rope.frequencies.end());
  const auto constant = [&] {
    const at::tracer::impl::NoTracerDispatchMode
        untraced;  // a trace would record how the constant is made, without its values
    return at::tensor(frequencies).to(positions.device());
  };
  // Angles are in float, as in the models' training.
  const at::Tensor angles = positions.unsqueeze(-1).to(at::kFloat).mul(constant());
  return {.cosine = angles.cos().mul_(rope.attention_factor), .sine = angles.sin().mul_(rope.attention_factor)};
}

}  // namespace trainctl::model

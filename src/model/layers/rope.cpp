#include "model/layers/rope.h"

#include <ATen/TracerMode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "core/error.h"
#include "runtime/fake_tensor.h"

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
    if (wavelength > original / llama3.low_freq_factor) {
      frequency /= llama3.factor;
      continue;
    }
    if (wavelength < original / llama3.high_freq_factor) continue;
    const double smooth =
        (original / wavelength - llama3.low_freq_factor) / (llama3.high_freq_factor - llama3.low_freq_factor);
    frequency = (1 - smooth) * frequency / llama3.factor + smooth * frequency;
  }
}

struct ScaledRope {
  std::vector<double> frequencies;  // [d/2]
  double attention_factor;
};

/// Returns the frequencies of a sequence of `longest` tokens.
ScaledRope scaled_rope(const LlamaConfig& config, std::int64_t longest) {
  Rope rope{
      .config = config, .longest = longest, .frequencies = plain_frequencies(config.rope_theta, config.size_of_head())};
  config.rope_scaling.visit([&](const auto& scaling) { scale(rope, scaling); });
  return {.frequencies = std::move(rope.frequencies), .attention_factor = rope.attention_factor};
}

/// Returns what scale() computes for DynamicRopeConfig, for each token: int64 [B, T] -> float [B, T, d/2].
at::Tensor dynamic_frequencies(const LlamaConfig& config, const at::Tensor& lengths) {
  const auto trained = static_cast<double>(config.max_position_embeddings);
  const auto size = static_cast<double>(config.size_of_head());
  const double factor = config.rope_scaling.get_if<DynamicRopeConfig>()->factor;
  const at::Tensor now = lengths.clamp_min(config.max_position_embeddings).to(at::kDouble).unsqueeze(-1);
  const at::Tensor growth = now.mul(factor / trained).sub(factor - 1);
  const at::Tensor base = growth.pow(size / (size - 2)).mul(config.rope_theta);  // [B, T, 1]
  const at::Tensor powers =
      at::arange(0, config.size_of_head(), 2, lengths.options().dtype(at::kDouble)).div(-size);  // [d/2]
  return base.pow(powers).to(at::kFloat);
}

}  // namespace

std::int64_t rope_version(const LlamaConfig& config, std::int64_t length) {
  if (const auto* longrope = config.rope_scaling.get_if<LongRopeConfig>(); longrope != nullptr)
    return length > longrope->original_max_position_embeddings ? 1 : 0;
  if (config.rope_scaling.get_if<DynamicRopeConfig>() != nullptr)
    return std::max<std::int64_t>(length - config.max_position_embeddings, 0);
  return 0;
}

at::Tensor RopeFrequencies::on(c10::Device device, const std::vector<double>& values) {
  // A trace would record how the constant is made, without its values.
  const at::tracer::impl::NoTracerDispatchMode untraced;
  const auto copy = [&] { return at::tensor(std::vector<float>(values.begin(), values.end())).to(device); };
  if (runtime::FakeTensorScope::is_active()) return copy();
  for (const Kept& one : kept_)
    if (one.tensor.device() == device && one.values == values) return one.tensor;
  if (kept_.size() == kMost) kept_.erase(kept_.begin());
  return kept_.emplace_back(Kept{.values = values, .tensor = copy()}).tensor;
}

RopeTables rope_tables(const LlamaConfig& config, const at::Tensor& positions, const SequenceLengths& lengths,
                       RopeFrequencies& frequencies) {
  const at::Tensor places = positions.unsqueeze(-1).to(at::kFloat);
  const ScaledRope usual = scaled_rope(config, lengths.longest);
  const bool depends = lengths.by_token.defined() && rope_version(config, lengths.longest) != 0;
  // With `dynamic`, each length has its own, which would take the place of others that a graph may read.
  const bool is_of_length =
      config.rope_scaling.get_if<DynamicRopeConfig>() != nullptr && rope_version(config, lengths.longest) != 0;
  RopeFrequencies of_length;
  RopeFrequencies& kept = is_of_length ? of_length : frequencies;
  at::Tensor by_token = kept.on(positions.device(), usual.frequencies);
  // Each sequence of a row has the frequencies of its own length, as if it were alone. The factor of attention is the
  // same for all lengths.
  if (depends && config.rope_scaling.get_if<LongRopeConfig>() != nullptr) {
    const at::Tensor is_long =
        lengths.by_token.gt(config.rope_scaling.get_if<LongRopeConfig>()->original_max_position_embeddings);
    by_token = at::where(is_long.unsqueeze(-1), by_token,
                         frequencies.on(positions.device(), scaled_rope(config, 1).frequencies));
  } else if (depends) {
    by_token = dynamic_frequencies(config, lengths.by_token);
  }
  // Angles are in float, as in the models' training.
  const at::Tensor angles = places.mul(by_token);
  return {.cosine = angles.cos().mul_(usual.attention_factor), .sine = angles.sin().mul_(usual.attention_factor)};
}

}  // namespace trainctl::model

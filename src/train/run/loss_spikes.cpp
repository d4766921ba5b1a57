#include "train/run/loss_spikes.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/median.h"

namespace trainctl::train {
namespace {

/// The robust standard deviation of normal values is this times the median of their absolute distances.
constexpr double kOfNormal = 1.4826;
/// Smaller deviations don't count: those of a loss that hardly varies, as a share of the loss, and of a logarithm.
constexpr double kLeastLossDeviation = 0.01;
constexpr double kLeastNormDeviation = 0.05;

struct Usual {
  double median = 0;
  double deviation = 0;
};

Usual usual_of(std::vector<double> values) {
  Usual usual{.median = core::median(values)};
  for (double& value : values) value = std::abs(value - usual.median);
  usual.deviation = kOfNormal * core::median(values);
  return usual;
}

}  // namespace

LossSpikes::LossSpikes(const LossSpikesConfig& config)
    : config_(config), steps_(at::zeros({config.window, 2}, at::kDouble)) {}

std::optional<LossSpike> LossSpikes::observe(double loss, double grad_norm) {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm) || grad_norm <= 0) return std::nullopt;
  const double log_norm = std::log(grad_norm);
  double* const steps = steps_.mutable_data_ptr<double>();
  const std::int64_t known = std::min(num_steps_, config_.window);
  if (2 * known >= config_.window) {
    std::vector<double> losses, norms;
    for (std::int64_t i = 0; i < known; ++i) {
      losses.push_back(steps[2 * i]);
      norms.push_back(steps[2 * i + 1]);
    }
    const Usual of_loss = usual_of(std::move(losses));
    const Usual of_norm = usual_of(std::move(norms));
    const double least = std::max(kLeastLossDeviation * std::abs(of_loss.median), 1e-12);
    const LossSpike spike{
        .loss = loss,
        .usual_loss = of_loss.median,
        .loss_z = (loss - of_loss.median) / std::max(of_loss.deviation, least),
        .grad_norm = grad_norm,
        .usual_grad_norm = std::exp(of_norm.median),
        .grad_norm_z = (log_norm - of_norm.median) / std::max(of_norm.deviation, kLeastNormDeviation)};
    if (spike.loss_z > config_.loss_z && spike.grad_norm_z > config_.grad_norm_z) return spike;
  }
  const std::int64_t place = num_steps_++ % config_.window;
  steps[2 * place] = loss;
  steps[2 * place + 1] = log_norm;
  return std::nullopt;
}

void LossSpikes::visit_state(runtime::State& state) {
  state.tensor("steps", steps_);
  state.integer("num_steps", num_steps_);
}

}  // namespace trainctl::train

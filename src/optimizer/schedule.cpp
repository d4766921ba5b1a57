#include "optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainctl::optimizer {
namespace {

double cosine_between(double from, double to, double share) {
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * share) + 1);
}

/// The learning rate of each shape at `unit` of `length`, both counted after the warm-up. Past the end the rate stays.
struct ShapeAt {
  double peak;
  std::int64_t unit;
  std::int64_t length;

  double share() const { return static_cast<double>(std::min(unit, length)) / static_cast<double>(length); }

  double operator()(const ConstantScheduleConfig&) const { return peak; }
  double operator()(const PlateauScheduleConfig&) const { return peak; }
  double operator()(const StepScheduleConfig& config) const {
    return peak * std::pow(config.gamma, static_cast<double>(unit / config.step_size));
  }
  double operator()(const MultistepScheduleConfig& config) const {
    const auto passed = std::count_if(config.milestones.begin(), config.milestones.end(),
                                      [this](std::int64_t milestone) { return milestone <= unit; });
    return peak * std::pow(config.gamma, static_cast<double>(passed));
  }
  double operator()(const LinearScheduleConfig& config) const { return peak * (1 + (config.end_factor - 1) * share()); }
  double operator()(const CosineScheduleConfig& config) const { return cosine_between(peak, config.min_lr, share()); }
  double operator()(const PolynomialScheduleConfig& config) const { return peak * std::pow(1 - share(), config.power); }
  double operator()(const OneCycleScheduleConfig& config) const;
  double operator()(const WsdScheduleConfig& config) const;
};

double ShapeAt::operator()(const OneCycleScheduleConfig& config) const {
  const auto total = static_cast<double>(length);
  const double at = static_cast<double>(std::min(unit, length - 1));
  const double top = config.pct_start * total - 1;  // the unit of the peak; OneCycleLR lets it fall between two
  const double first = peak / config.div_factor;
  const double last = first / config.final_div_factor;
  const auto between = [&](double from, double to, double begin, double end) {
    const double share_of_slope = end > begin ? (at - begin) / (end - begin) : 1;
    return config.anneal == Anneal::cosine ? cosine_between(from, to, share_of_slope)
                                           : from + (to - from) * share_of_slope;
  };
  return at <= top ? between(first, peak, 0, top) : between(peak, last, top, total - 1);
}

double ShapeAt::operator()(const WsdScheduleConfig& config) const {
  const std::int64_t decay_length = std::llround(config.decay_ratio * static_cast<double>(length));
  const std::int64_t into_decay = std::min(unit, length) - (length - decay_length);
  if (into_decay <= 0) return peak;
  const double gone = static_cast<double>(into_decay) / static_cast<double>(decay_length);
  double left = 0;
  switch (config.decay) {
    case DecayShape::linear:
      left = 1 - gone;
      break;
    case DecayShape::sqrt:
      left = 1 - std::sqrt(gone);
      break;
    case DecayShape::cosine:
      left = cosine_between(1, 0, gone);
      break;
  }
  return peak * (config.min_factor + (1 - config.min_factor) * left);
}

}  // namespace

double lr_at(const ScheduleConfig& config, double peak_lr, std::int64_t step, const RunLength& run) {
  std::int64_t unit = std::max<std::int64_t>(step, 0);
  std::int64_t length = run.total_steps;
  if (config.interval == LrInterval::epoch) {
    const std::int64_t per_epoch = std::max<std::int64_t>(run.steps_per_epoch, 1);
    unit /= per_epoch;
    length = (length + per_epoch - 1) / per_epoch;
  }
  if (unit < config.warmup) {
    const double share = static_cast<double>(unit) / static_cast<double>(config.warmup);
    return peak_lr * (config.warmup_start_factor + (1 - config.warmup_start_factor) * share);
  }
  return config.shape.visit(ShapeAt{
      .peak = peak_lr, .unit = unit - config.warmup, .length = std::max<std::int64_t>(length - config.warmup, 1)});
}

void Plateau::observe(double metric) {
  const bool lower = config_.better == Better::lower;
  const double worst = lower ? INFINITY : -INFINITY;  // no improvement on nothing, and neither is NaN
  const double bar = has_best_ ? best_ * (lower ? 1 - config_.threshold : 1 + config_.threshold) : worst;
  const bool improved = lower ? metric < bar : metric > bar;
  if (improved) {
    best_ = metric;
    has_best_ = 1;
    num_bad_ = 0;
  } else {
    ++num_bad_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    num_bad_ = 0;
  }
  if (num_bad_ <= config_.patience) return;
  constexpr double kSmallestChange = 1e-8;  // ReduceLROnPlateau's eps
  const double reduced = std::max(lr_ * config_.factor, config_.min_lr);
  if (lr_ - reduced > kSmallestChange) lr_ = reduced;
  cooldown_left_ = config_.cooldown;
  num_bad_ = 0;
}

std::optional<Plateau> plateau_of(const ScheduleConfig& config, double peak_lr) {
  const auto* plateau = config.shape.get_if<PlateauScheduleConfig>();
  return plateau == nullptr ? std::nullopt : std::optional<Plateau>(std::in_place, *plateau, peak_lr);
}

void Plateau::visit_state(runtime::State& state) {
  state.number("lr", lr_);
  double saved_peak = peak_lr_;  // older checkpoints lack it
  if (state.has("peak_lr")) state.number("peak_lr", saved_peak);
  if (saved_peak != peak_lr_) lr_ *= peak_lr_ / saved_peak;  // the reductions so far apply to the new rate
  state.number("best", best_);
  state.integer("has_best", has_best_);
  state.integer("num_bad", num_bad_);
  state.integer("cooldown_left", cooldown_left_);
  const char* const best = config_.better == Better::lower ? "lowest " : "highest ";
  if (runtime::watched_another(state, best + config_.metric)) forget_best();
}

}  // namespace trainctl::optimizer

// The shapes of `optimizer.lr_scheduler:`. Part of optimizer/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/field.h"
#include "config/traits.h"

namespace trainctl::optimizer {

/// What other folders must know of a schedule.
struct ScheduleTraits {
  config::Stated<bool> has_own_warmup;  // so that `warmup` would come before another
  config::Stated<bool> decays;          // the rate falls below its peak
};

enum class Better { lower, higher };

/// An evaluation metric that a schedule follows.
struct WatchedMetric {
  std::string name;
  Better better = Better::lower;
};

/// What a schedule's config says of its values.
struct ScheduleFacts {
  config::Stated<std::optional<WatchedMetric>> watched;
  std::vector<config::BrokenRule> broken_rules{};
};

struct ConstantScheduleConfig {
  static constexpr std::string_view kind = "constant";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = false};
  ScheduleFacts facts() const { return {.watched = std::nullopt}; }
  static constexpr auto fields() { return config::Fields{}; }
};

/// torch.optim.lr_scheduler.StepLR.
struct StepScheduleConfig {
  static constexpr std::string_view kind = "step";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  std::int64_t step_size = 30;
  double gamma = 0.1;

  ScheduleFacts facts() const { return {.watched = std::nullopt}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&StepScheduleConfig::step_size>("Units between reductions.", config::at_least(1)),
        field<&StepScheduleConfig::gamma>("Factor of each reduction.", config::positive),
    };
  }
};

/// torch.optim.lr_scheduler.MultiStepLR.
struct MultistepScheduleConfig {
  static constexpr std::string_view kind = "multistep";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;

  ScheduleFacts facts() const {
    ScheduleFacts facts{.watched = std::nullopt};
    for (std::size_t i = 1; i < milestones.size() && facts.broken_rules.empty(); ++i)
      if (milestones[i] <= milestones[i - 1])
        facts.broken_rules.push_back(
            {{"optimizer.lr_scheduler.milestones[" + std::to_string(i) + "]", "optimizer.lr_scheduler.milestones",
              "optimizer.lr_scheduler.kind"},
             "expected more than the milestone before it, " + std::to_string(milestones[i - 1])});
    return facts;
  }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&MultistepScheduleConfig::milestones>("Units after which the rate is reduced.",
                                                    config::non_empty & config::at_least(1) & config::required),
        field<&MultistepScheduleConfig::gamma>("Factor of each reduction.", config::positive),
    };
  }
};

/// torch.optim.lr_scheduler.LinearLR from 1 to `end_factor` over the whole run.
struct LinearScheduleConfig {
  static constexpr std::string_view kind = "linear";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  double end_factor = 0;

  ScheduleFacts facts() const { return {.watched = std::nullopt}; }
  static constexpr auto fields() {
    return config::Fields{config::field<&LinearScheduleConfig::end_factor>("Share of the rate that is left at the end.",
                                                                           config::fraction)};
  }
};

/// torch.optim.lr_scheduler.CosineAnnealingLR over the whole run (https://arxiv.org/abs/1608.03983, without restarts).
struct CosineScheduleConfig {
  static constexpr std::string_view kind = "cosine";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  double min_lr = 0;

  ScheduleFacts facts() const { return {.watched = std::nullopt}; }
  static constexpr auto fields() {
    return config::Fields{
        config::field<&CosineScheduleConfig::min_lr>("Learning rate at the end.", config::non_negative)};
  }
};

enum class Anneal { cosine, linear };

/// torch.optim.lr_scheduler.OneCycleLR (https://arxiv.org/abs/1708.07120), without cycling the momentum.
struct OneCycleScheduleConfig {
  static constexpr std::string_view kind = "one_cycle";
  static constexpr ScheduleTraits traits{.has_own_warmup = true, .decays = true};
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  Anneal anneal = Anneal::cosine;

  ScheduleFacts facts() const { return {.watched = std::nullopt}; }
  static constexpr auto fields() {
    using config::field;
    using C = OneCycleScheduleConfig;
    return config::Fields{
        field<&C::pct_start>("Share of the run spent rising.", config::fraction),
        field<&C::div_factor>("The run starts at lr divided by this.", config::positive),
        field<&C::final_div_factor>("The run ends at the starting rate divided by this.", config::positive),
        field<&C::anneal>("Shape of both slopes."),
    };
  }
};

/// torch.optim.lr_scheduler.PolynomialLR over the whole run.
struct PolynomialScheduleConfig {
  static constexpr std::string_view kind = "polynomial";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  double power = 1;

  ScheduleFacts facts() const { return {.watched = std::nullopt}; }
  static constexpr auto fields() {
    return config::Fields{config::field<&PolynomialScheduleConfig::power>("Exponent of the remaining share of the run.",
                                                                          config::positive)};
  }
};

enum class DecayShape { linear, sqrt, cosine };

/// Warm-up, stable, decay (https://arxiv.org/abs/2404.06395; the 1-sqrt decay is of https://arxiv.org/abs/2405.18392).
struct WsdScheduleConfig {
  static constexpr std::string_view kind = "warmup_stable_decay";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  double decay_ratio = 0.2;
  DecayShape decay = DecayShape::linear;
  double min_factor = 0;

  ScheduleFacts facts() const {
    ScheduleFacts facts{.watched = std::nullopt};
    if (decay_ratio > 0) return facts;
    for (const auto& [key, is_set] : {std::pair("optimizer.lr_scheduler.decay", decay != DecayShape::linear),
                                      std::pair("optimizer.lr_scheduler.min_factor", min_factor != 0)})
      if (is_set)
        facts.broken_rules.push_back(
            {{key, "optimizer.lr_scheduler.decay_ratio", "optimizer.lr_scheduler.kind"},
             "changes nothing while optimizer.lr_scheduler.decay_ratio is 0: the rate doesn't fall"});
    return facts;
  }
  static constexpr auto fields() {
    using config::field;
    using C = WsdScheduleConfig;
    return config::Fields{
        field<&C::decay_ratio>("Share of the run, at its end, in which the rate falls.", config::fraction),
        field<&C::decay>("Shape of the fall: linear, 1 - sqrt, or cosine."),
        field<&C::min_factor>("Share of the rate that is left at the end.", config::fraction),
    };
  }
};

/// torch.optim.lr_scheduler.ReduceLROnPlateau, asked after each evaluation.
struct PlateauScheduleConfig {
  static constexpr std::string_view kind = "reduce_on_plateau";
  static constexpr ScheduleTraits traits{.has_own_warmup = false, .decays = true};
  std::string metric = "loss";
  Better better = Better::lower;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::int64_t cooldown = 0;
  double min_lr = 0;

  ScheduleFacts facts() const { return {.watched = WatchedMetric{metric, better}}; }
  static constexpr auto fields() {
    using config::field;
    using C = PlateauScheduleConfig;
    return config::Fields{
        field<&C::metric>("Evaluation metric that is watched.", config::non_empty),
        field<&C::better>("Whether lower or higher values of it are better."),
        field<&C::factor>("Factor of each reduction.", config::positive & config::below_one),
        field<&C::patience>("Evaluations without improvement before a reduction.", config::at_least(0)),
        field<&C::threshold>("Smallest relative change that counts as improvement.", config::non_negative),
        field<&C::cooldown>("Evaluations after a reduction during which none are counted.", config::at_least(0)),
        field<&C::min_lr>("Floor of the learning rate.", config::non_negative),
    };
  }
};

using ScheduleShapeConfig = config::OneOf<ConstantScheduleConfig, StepScheduleConfig, MultistepScheduleConfig,
                                          LinearScheduleConfig, CosineScheduleConfig, OneCycleScheduleConfig,
                                          PolynomialScheduleConfig, WsdScheduleConfig, PlateauScheduleConfig>;
static_assert(config::kHaveTraits<ScheduleShapeConfig, ScheduleTraits> &&
              config::kHaveFacts<ScheduleShapeConfig, ScheduleFacts>);

}  // namespace trainctl::optimizer

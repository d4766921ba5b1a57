// `optimizer:`: the update rule, its learning-rate schedule, parameter groups, clipping and averaging.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/traits.h"

namespace trainctl::optimizer {

inline constexpr std::string_view kFusedHelp =
    "Update each parameter in one pass over its memory; false uses unfused operators, for benchmarks.";

/// What other folders must know of an update rule.
struct OptimizerTraits {
  config::Stated<bool> is_elementwise;  // an element's update needs no other element, so that shards can be updated
  config::Stated<bool> reads_overflow_flag;  // on the host, which waits for the device; with `fused` where there is one
  config::Stated<double> starter_lr;         // learning rate that trains a small network
};

/// What an update rule's config says of its values.
struct OptimizerFacts {
  config::Stated<bool> could_fuse;  // `fused` is false
};

struct SgdConfig {
  static constexpr std::string_view kind = "sgd";
  static constexpr OptimizerTraits traits{.is_elementwise = true, .reads_overflow_flag = false, .starter_lr = 0.05};
  double momentum = 0.9;
  bool nesterov = false;
  double dampening = 0;
  bool fused = true;

  OptimizerFacts facts() const { return {.could_fuse = !fused}; }
  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&SgdConfig::momentum>("Share of the last update that is kept; 0 is plain gradient descent.",
                                    config::below_one),
        field<&SgdConfig::nesterov>("Look ahead along the momentum; needs momentum and no dampening."),
        field<&SgdConfig::dampening>("Reduces the gradient's share in the momentum.", config::fraction),
        field<&SgdConfig::fused>(kFusedHelp),
    };
  }
};

/// https://arxiv.org/abs/1412.6980, weight decay added to the gradient as in torch.optim.Adam.
struct AdamConfig {
  static constexpr std::string_view kind = "adam";
  static constexpr OptimizerTraits traits{.is_elementwise = true, .reads_overflow_flag = false, .starter_lr = 3e-3};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  bool fused = true;

  OptimizerFacts facts() const { return {.could_fuse = !fused}; }
  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&AdamConfig::beta1>("Decay of the gradient's average.", config::below_one),
        field<&AdamConfig::beta2>("Decay of the squared gradient's average.", config::below_one),
        field<&AdamConfig::eps>("Added to the denominator.", config::non_negative),
        field<&AdamConfig::amsgrad>(
            "Divide by the largest squared average so far (https://openreview.net/forum?id=ryQu7f-RZ)."),
        field<&AdamConfig::fused>(kFusedHelp),
    };
  }
};

/// https://arxiv.org/abs/1711.05101 as torch.optim.AdamW: decay is multiplied by the learning rate and decoupled from
/// the gradient.
struct AdamWConfig {
  static constexpr std::string_view kind = "adamw";
  static constexpr OptimizerTraits traits{.is_elementwise = true, .reads_overflow_flag = false, .starter_lr = 3e-3};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  bool fused = true;

  OptimizerFacts facts() const { return {.could_fuse = !fused}; }
  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&AdamWConfig::beta1>("Decay of the gradient's average.", config::below_one),
        field<&AdamWConfig::beta2>("Decay of the squared gradient's average.", config::below_one),
        field<&AdamWConfig::eps>("Added to the denominator.", config::non_negative),
        field<&AdamWConfig::amsgrad>(
            "Divide by the largest squared average so far (https://openreview.net/forum?id=ryQu7f-RZ)."),
        field<&AdamWConfig::fused>(kFusedHelp),
    };
  }
};

/// torch.optim.RMSprop, as torchvision's MobileNet and EfficientNet recipes use it.
struct RmspropConfig {
  static constexpr std::string_view kind = "rmsprop";
  static constexpr OptimizerTraits traits{.is_elementwise = true, .reads_overflow_flag = true, .starter_lr = 3e-3};
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&RmspropConfig::alpha>("Decay of the squared gradient's average.", config::below_one),
        field<&RmspropConfig::eps>("Added to the denominator.", config::non_negative),
        field<&RmspropConfig::momentum>("Share of the last update that is kept.", config::below_one),
        field<&RmspropConfig::centered>("Divide by the standard deviation instead of the root mean square."),
    };
  }
};

/// https://arxiv.org/abs/1904.00962: Adam's update, scaled by each layer's ratio of weight norm to update norm.
struct LambConfig {
  static constexpr std::string_view kind = "lamb";
  static constexpr OptimizerTraits traits{.is_elementwise = false, .reads_overflow_flag = true, .starter_lr = 0.01};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double max_trust_ratio = 10;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&LambConfig::beta1>("Decay of the gradient's average.", config::below_one),
        field<&LambConfig::beta2>("Decay of the squared gradient's average.", config::below_one),
        field<&LambConfig::eps>("Added to the denominator.", config::non_negative),
        field<&LambConfig::max_trust_ratio>("Ceiling of a layer's ratio.", config::positive),
    };
  }
};

/// https://arxiv.org/abs/1804.04235 as torch.optim.Adafactor: second moments kept as a row and a column.
struct AdafactorConfig {
  static constexpr std::string_view kind = "adafactor";
  static constexpr OptimizerTraits traits{.is_elementwise = false, .reads_overflow_flag = true, .starter_lr = 0.01};
  double beta2_decay = -0.8;
  std::optional<double> eps1;
  double eps2 = 1e-3;
  double clip_threshold = 1;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    using C = AdafactorConfig;
    return std::tuple{
        field<&C::beta2_decay>("beta2 at step t is 1 - t^this.", config::between(-10, 0)),
        field<&C::eps1>("Added to squared gradients; null takes the dtype's epsilon.", config::positive),
        field<&C::eps2>("Floor of a parameter's root mean square, to which its learning rate is relative.",
                        config::non_negative),
        field<&C::clip_threshold>("Ceiling of an update's root mean square.", config::positive),
    };
  }
};

using UpdateRuleConfig = config::OneOf<AdamWConfig, SgdConfig, AdamConfig, RmspropConfig, LambConfig, AdafactorConfig>;
static_assert(config::kHaveTraits<UpdateRuleConfig, OptimizerTraits> &&
              config::kHaveFacts<UpdateRuleConfig, OptimizerFacts>);

/// What other folders must know of a schedule.
struct ScheduleTraits {
  config::Stated<bool> has_own_warmup;  // so that `warmup` would come before another
};

struct ConstantScheduleConfig {
  static constexpr std::string_view kind = "constant";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  static constexpr auto fields() { return std::tuple{}; }
};

/// torch.optim.lr_scheduler.StepLR.
struct StepScheduleConfig {
  static constexpr std::string_view kind = "step";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  std::int64_t step_size = 30;
  double gamma = 0.1;

  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&StepScheduleConfig::step_size>("Units between reductions.", config::at_least(1)),
        field<&StepScheduleConfig::gamma>("Factor of each reduction.", config::positive),
    };
  }
};

/// torch.optim.lr_scheduler.MultiStepLR.
struct MultistepScheduleConfig {
  static constexpr std::string_view kind = "multistep";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  std::vector<std::int64_t> milestones;
  double gamma = 0.1;

  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&MultistepScheduleConfig::milestones>("Units after which the rate is reduced.",
                                                    config::non_empty & config::at_least(1) & config::required),
        field<&MultistepScheduleConfig::gamma>("Factor of each reduction.", config::positive),
    };
  }
};

/// torch.optim.lr_scheduler.LinearLR from 1 to `end_factor` over the whole run.
struct LinearScheduleConfig {
  static constexpr std::string_view kind = "linear";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  double end_factor = 0;

  static constexpr auto fields() {
    return std::tuple{config::field<&LinearScheduleConfig::end_factor>("Share of the rate that is left at the end.",
                                                                       config::fraction)};
  }
};

/// torch.optim.lr_scheduler.CosineAnnealingLR over the whole run (https://arxiv.org/abs/1608.03983, without restarts).
struct CosineScheduleConfig {
  static constexpr std::string_view kind = "cosine";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  double min_lr = 0;

  static constexpr auto fields() {
    return std::tuple{config::field<&CosineScheduleConfig::min_lr>("Learning rate at the end.", config::non_negative)};
  }
};

enum class Anneal { cosine, linear };

/// torch.optim.lr_scheduler.OneCycleLR (https://arxiv.org/abs/1708.07120), without cycling the momentum.
struct OneCycleScheduleConfig {
  static constexpr std::string_view kind = "one_cycle";
  static constexpr ScheduleTraits traits{.has_own_warmup = true};
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  Anneal anneal = Anneal::cosine;

  static constexpr auto fields() {
    using config::field;
    using C = OneCycleScheduleConfig;
    return std::tuple{
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
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  double power = 1;

  static constexpr auto fields() {
    return std::tuple{config::field<&PolynomialScheduleConfig::power>("Exponent of the remaining share of the run.",
                                                                      config::positive)};
  }
};

enum class DecayShape { linear, sqrt, cosine };

/// Warm-up, stable, decay (https://arxiv.org/abs/2404.06395; the 1-sqrt decay is of https://arxiv.org/abs/2405.18392).
struct WsdScheduleConfig {
  static constexpr std::string_view kind = "warmup_stable_decay";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  double decay_ratio = 0.2;
  DecayShape decay = DecayShape::linear;
  double min_factor = 0;

  static constexpr auto fields() {
    using config::field;
    using C = WsdScheduleConfig;
    return std::tuple{
        field<&C::decay_ratio>("Share of the run, at its end, in which the rate falls.", config::fraction),
        field<&C::decay>("Shape of the fall: linear, 1 - sqrt, or cosine."),
        field<&C::min_factor>("Share of the rate that is left at the end.", config::fraction),
    };
  }
};

enum class Better { lower, higher };

/// torch.optim.lr_scheduler.ReduceLROnPlateau, asked after each evaluation.
struct PlateauScheduleConfig {
  static constexpr std::string_view kind = "reduce_on_plateau";
  static constexpr ScheduleTraits traits{.has_own_warmup = false};
  std::string metric = "loss";
  Better better = Better::lower;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  std::int64_t cooldown = 0;
  double min_lr = 0;

  static constexpr auto fields() {
    using config::field;
    using C = PlateauScheduleConfig;
    return std::tuple{
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
static_assert(config::kHaveTraits<ScheduleShapeConfig, ScheduleTraits>);

enum class LrInterval { step, epoch };

struct ScheduleConfig {
  ScheduleShapeConfig shape;
  std::int64_t warmup = 0;
  double warmup_start_factor = 0;
  LrInterval interval = LrInterval::step;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = ScheduleConfig;
    return std::tuple{
        choice<&C::shape>("How the learning rate changes over the run."),
        field<&C::warmup>("Units over which the rate first rises linearly; the shape then covers the rest of the run.",
                          config::at_least(0)),
        field<&C::warmup_start_factor>("Share of the rate at which the warm-up starts.", config::fraction),
        field<&C::interval>(
            "What counts are in: optimizer steps, or whole epochs (the rate then changes only between them)."),
    };
  }
};

struct EmaConfig {
  double decay = 0.9999;
  std::int64_t every = 1;
  std::int64_t start = 0;

  static constexpr auto fields() {
    using config::field;
    return std::tuple{
        field<&EmaConfig::decay>("Share of the average that is kept at each update.", config::below_one),
        field<&EmaConfig::every>("Steps between updates.", config::at_least(1)),
        field<&EmaConfig::start>("First step that is averaged; before it the average is the weights.",
                                 config::at_least(0)),
    };
  }
};

enum class LrScaling { none, linear, sqrt };

struct OptimizerConfig {
  UpdateRuleConfig rule;
  double lr = 1e-3;
  double weight_decay = 0;
  bool decay_bias_and_norm = false;
  std::optional<double> clip_norm;
  ScheduleConfig lr_scheduler;
  LrScaling lr_scaling = LrScaling::none;
  std::int64_t base_batch_size = 256;
  std::optional<EmaConfig> ema;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = OptimizerConfig;
    return std::tuple{
        choice<&C::rule>("Update rule."),
        field<&C::lr>("Peak learning rate.", config::positive),
        field<&C::weight_decay>(
            "Pull of the weights towards zero; decoupled from the gradient in adamw, lamb and adafactor.",
            config::non_negative),
        field<&C::decay_bias_and_norm>("Decay biases and normalisation weights too (parameters of one dimension)."),
        field<&C::clip_norm>("Scale gradients down to this global norm when it is exceeded; null is off.",
                             config::positive),
        field<&C::lr_scheduler>("Learning rate over the run."),
        field<&C::lr_scaling>("Multiply lr by the global batch over base_batch_size "
                              "(https://arxiv.org/abs/1706.02677), or by its square root."),
        field<&C::base_batch_size>("Samples in a step for which lr was chosen.", config::at_least(1)),
        field<&C::ema>("Keep an exponential moving average of the weights, and evaluate that."),
    };
  }
};

}  // namespace trainctl::optimizer

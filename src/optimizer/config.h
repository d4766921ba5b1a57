// `optimizer:`: the update rule, its learning-rate schedule, parameter groups, clipping and averaging.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/field.h"
#include "optimizer/rule_config.h"
#include "optimizer/schedule_config.h"

namespace trainctl::optimizer {

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
    return config::Fields{
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
    return config::Fields{
        field<&EmaConfig::decay>("Share of the average that is kept at each update.", config::below_one),
        field<&EmaConfig::every>("Steps between updates.", config::at_least(1)),
        field<&EmaConfig::start>("First step that is averaged; before it the average is the weights.",
                                 config::at_least(0)),
    };
  }
};

enum class LrScaling { none, linear, sqrt };

/// Parameters with a learning rate or decay of their own, as torch.optim's param_groups.
struct ParameterGroupConfig {
  std::string params;
  std::optional<double> lr;
  std::optional<double> lr_scale;
  std::optional<double> weight_decay;

  static constexpr auto fields() {
    using config::field;
    using C = ParameterGroupConfig;
    return config::Fields{
        field<&C::params>("Pattern of layers or parameters, by their names or the ends of their names: `encoder`, "
                          "`layer[1-3]`, `*.bias`.",
                          config::required & config::non_empty),
        field<&C::lr>("Their peak learning rate; the schedule changes it in proportion to optimizer.lr.",
                      config::positive),
        field<&C::lr_scale>("Their learning rate as a multiple of optimizer.lr; in place of lr.", config::positive),
        field<&C::weight_decay>("Their weight decay, in place of optimizer.weight_decay.", config::non_negative),
    };
  }
};

struct OptimizerConfig {
  UpdateRuleConfig rule;
  double lr = 1e-3;
  double weight_decay = 0;
  bool decay_bias_and_norm = false;
  std::optional<double> clip_norm;
  ScheduleConfig lr_scheduler;
  LrScaling lr_scaling = LrScaling::none;
  std::int64_t base_batch_size = 256;
  std::optional<double> layer_decay;
  std::vector<ParameterGroupConfig> param_groups{};
  std::optional<EmaConfig> ema;

  static constexpr auto fields() {
    using config::choice;
    using config::field;
    using C = OptimizerConfig;
    return config::Fields{
        choice<&C::rule>("Update rule."),
        field<&C::lr>("Peak learning rate.", config::positive),
        field<&C::weight_decay>("Pull of the weights towards zero; decoupled from the gradient in adamw, lion, muon, "
                                "soap, lamb and adafactor.",
                                config::non_negative),
        field<&C::decay_bias_and_norm>("Decay biases and normalisation weights too (parameters of one dimension)."),
        field<&C::clip_norm>("Scale gradients down to this global norm when it is exceeded; null is off.",
                             config::positive),
        field<&C::lr_scheduler>("Learning rate over the run."),
        field<&C::lr_scaling>("Multiply lr by the global batch over base_batch_size "
                              "(https://arxiv.org/abs/1706.02677), or by its square root."),
        field<&C::base_batch_size>("Samples in a step for which lr was chosen.", config::at_least(1)),
        field<&C::layer_decay>(
            "Layer-wise decay: multiplies the learning rate of a block by this for each block after it, so that the "
            "head has the whole rate and the embeddings the smallest (https://arxiv.org/abs/2106.08254).",
            config::positive & config::fraction),
        field<&C::param_groups>("Parameters with a learning rate or weight decay of their own; of several entries "
                                "that fit, the last. The rate is multiplied by layer_decay's factor, too."),
        field<&C::ema>("Keep an exponential moving average of the weights, and evaluate that."),
    };
  }
};

}  // namespace trainctl::optimizer

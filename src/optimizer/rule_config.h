// The update rules of `optimizer:`. Part of optimizer/config.h.
#pragma once

#include <optional>
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
  std::vector<config::BrokenRule> broken_rules{};
};

struct SgdConfig {
  static constexpr std::string_view kind = "sgd";
  static constexpr OptimizerTraits traits{.is_elementwise = true, .reads_overflow_flag = false, .starter_lr = 0.05};
  double momentum = 0.9;
  bool nesterov = false;
  double dampening = 0;
  bool fused = true;

  OptimizerFacts facts() const {
    OptimizerFacts facts{.could_fuse = !fused};
    if (nesterov && momentum == 0)
      facts.broken_rules.push_back(
          {{"optimizer.nesterov", "optimizer.momentum", "optimizer.kind"}, "needs a momentum above 0"});
    if (nesterov && dampening != 0)
      facts.broken_rules.push_back(
          {{"optimizer.nesterov", "optimizer.dampening", "optimizer.kind"}, "needs a dampening of 0"});
    return facts;
  }
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

}  // namespace trainctl::optimizer

// The update rules of `optimizer:`. Part of optimizer/config.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/field.h"
#include "config/traits.h"
#include "optimizer/plugged_rule.h"
#include "optimizer/rule_traits.h"

namespace trainctl::optimizer {

inline constexpr std::string_view kFusedHelp =
    "Update each parameter in one pass over its memory; false uses unfused operators, for benchmarks.";

struct SgdConfig {
  static constexpr std::string_view kind = "sgd";
  static constexpr OptimizerTraits traits{.is_elementwise = true,
                                          .updates_shards = true,
                                          .normalizes_elements = false,
                                          .averages_weights = false,
                                          .reads_overflow_flag = false,
                                          .starter_lr = 0.05};
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
    if (dampening != 0 && momentum == 0)
      facts.broken_rules.push_back(
          {{"optimizer.dampening", "optimizer.momentum", "optimizer.kind"},
           "changes nothing while optimizer.momentum is 0: it reduces the gradient's share in the momentum"});
    return facts;
  }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
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
  static constexpr OptimizerTraits traits{.is_elementwise = true,
                                          .updates_shards = true,
                                          .normalizes_elements = true,
                                          .averages_weights = false,
                                          .reads_overflow_flag = false,
                                          .starter_lr = 3e-3};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  bool fused = true;

  OptimizerFacts facts() const { return {.could_fuse = !fused}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
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
  static constexpr OptimizerTraits traits{.is_elementwise = true,
                                          .updates_shards = true,
                                          .normalizes_elements = true,
                                          .averages_weights = false,
                                          .reads_overflow_flag = false,
                                          .starter_lr = 3e-3};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool amsgrad = false;
  bool fused = true;

  OptimizerFacts facts() const { return {.could_fuse = !fused}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
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
  static constexpr OptimizerTraits traits{.is_elementwise = true,
                                          .updates_shards = true,
                                          .normalizes_elements = true,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 3e-3};
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  bool centered = false;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
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
  static constexpr OptimizerTraits traits{.is_elementwise = false,
                                          .updates_shards = false,
                                          .normalizes_elements = false,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 0.01};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double max_trust_ratio = 10;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
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
  static constexpr OptimizerTraits traits{.is_elementwise = false,
                                          .updates_shards = false,
                                          .normalizes_elements = false,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 0.01};
  double beta2_decay = -0.8;
  std::optional<double> eps1;
  double eps2 = 1e-3;
  double clip_threshold = 1;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    using C = AdafactorConfig;
    return config::Fields{
        field<&C::beta2_decay>("beta2 at step t is 1 - t^this.", config::between(-10, 0)),
        field<&C::eps1>("Added to squared gradients; null takes the dtype's epsilon.", config::positive),
        field<&C::eps2>("Floor of a parameter's root mean square, to which its learning rate is relative.",
                        config::non_negative),
        field<&C::clip_threshold>("Ceiling of an update's root mean square.", config::positive),
    };
  }
};

/// https://arxiv.org/abs/2302.06675: the sign of an average of gradients, with decoupled weight decay.
struct LionConfig {
  static constexpr std::string_view kind = "lion";
  static constexpr OptimizerTraits traits{.is_elementwise = true,
                                          .updates_shards = true,
                                          .normalizes_elements = true,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 3e-4};
  double beta1 = 0.9;
  double beta2 = 0.99;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&LionConfig::beta1>("Share of the gradient's average in the update.", config::below_one),
        field<&LionConfig::beta2>("Decay of the gradient's average.", config::below_one),
    };
  }
};

/// https://arxiv.org/abs/2405.15682 as AdamWScheduleFree of the package schedulefree: gradients are taken between the
/// iterates and their average, and evaluations take the average.
struct ScheduleFreeConfig {
  static constexpr std::string_view kind = "adamw_schedule_free";
  static constexpr OptimizerTraits traits{.is_elementwise = true,
                                          .updates_shards = true,
                                          .normalizes_elements = true,
                                          .averages_weights = true,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 0.01};
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double r = 0;
  double weight_lr_power = 2;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    using C = ScheduleFreeConfig;
    return config::Fields{
        field<&C::beta1>("Share of the average in the weights at which gradients are taken.",
                         config::positive & config::below_one),
        field<&C::beta2>("Decay of the squared gradient's average.", config::below_one),
        field<&C::eps>("Added to the denominator.", config::non_negative),
        field<&C::r>("Step t counts as t to the power of this in the average; above 0, late steps count more.",
                     config::non_negative),
        field<&C::weight_lr_power>(
            "Steps count in the average as the largest learning rate so far to the power of this; warm-up counts less.",
            config::non_negative),
    };
  }
};

/// The dtype in which Newton-Schulz iterations are computed. fp32: the parameters' own.
enum class NewtonSchulzDtype { bf16, fp32 };

/// How the shape of a matrix scales its learning rate. original: sqrt(max(1, rows / columns)). match_rms_adamw:
/// 0.2 sqrt(max(rows, columns)), so that learning rates of AdamW fit (https://arxiv.org/abs/2502.16982).
enum class AdjustLr { original, match_rms_adamw };

/// The rule of the parameters that muon does not update by matrices: embeddings, the output layer and vectors.
struct MuonAdamWConfig {
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-10;
  std::vector<std::string> params{};

  static constexpr auto fields() {
    using config::field;
    using C = MuonAdamWConfig;
    return config::Fields{
        field<&C::lr>("Peak learning rate; the schedule changes it in proportion to optimizer.lr.", config::positive),
        field<&C::beta1>("Decay of the gradient's average.", config::below_one),
        field<&C::beta2>("Decay of the squared gradient's average.", config::below_one),
        field<&C::eps>("Added to the denominator.", config::non_negative),
        field<&C::params>(
            "Patterns of layers or parameters that AdamW updates too, by their names or the ends of their "
            "names, as in param_groups."),
    };
  }
};

/// https://kellerjordan.github.io/posts/muon: hidden matrices change by their momentum, made nearly orthogonal by
/// Newton-Schulz iterations. AdamW updates the other parameters.
struct MuonConfig {
  static constexpr std::string_view kind = "muon";
  static constexpr OptimizerTraits traits{.is_elementwise = false,
                                          .updates_shards = true,
                                          .normalizes_elements = false,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 0.02};
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  config::AutoOr<NewtonSchulzDtype> ns_dtype;
  AdjustLr adjust_lr = AdjustLr::original;
  MuonAdamWConfig adamw;

  OptimizerFacts facts() const { return {.could_fuse = false}; }
  static constexpr auto fields() {
    using config::field;
    using C = MuonConfig;
    return config::Fields{
        field<&C::momentum>("Decay of the gradient's average.", config::below_one),
        field<&C::nesterov>("Look ahead along the momentum."),
        field<&C::ns_steps>("Newton-Schulz iterations of an update.", config::between(1, 99)),
        field<&C::ns_dtype>("Type in which they are computed; auto takes bf16 on GPUs and fp32 on CPUs."),
        field<&C::adjust_lr>("How a matrix's shape scales its learning rate: sqrt(max(1, rows/columns)), or "
                             "0.2 sqrt(max(rows, columns)), with which learning rates of AdamW fit."),
        field<&C::adamw>("Rates of the parameters that AdamW updates: embeddings, the output layer and vectors."),
    };
  }
};

/// https://arxiv.org/abs/2409.11321: Adam in the eigenbases of Shampoo's preconditioners.
struct SoapConfig {
  static constexpr std::string_view kind = "soap";
  static constexpr OptimizerTraits traits{.is_elementwise = false,
                                          .updates_shards = false,
                                          .normalizes_elements = false,
                                          .averages_weights = false,
                                          .reads_overflow_flag = true,
                                          .starter_lr = 3e-3};
  double beta1 = 0.95;
  double beta2 = 0.95;
  std::optional<double> shampoo_beta;
  double eps = 1e-8;
  std::int64_t precondition_frequency = 10;
  std::int64_t max_precond_dim = 10'000;
  bool precondition_1d = false;

  OptimizerFacts facts() const {
    OptimizerFacts facts{.could_fuse = false};
    if (max_precond_dim > 0) return facts;
    for (const auto& [key, is_set] :
         {std::pair("optimizer.shampoo_beta", shampoo_beta.has_value()),
          std::pair("optimizer.precondition_frequency", precondition_frequency != SoapConfig{}.precondition_frequency),
          std::pair("optimizer.precondition_1d", precondition_1d)})
      if (is_set)
        facts.broken_rules.push_back({{key, "optimizer.max_precond_dim", "optimizer.kind"},
                                      "changes nothing while optimizer.max_precond_dim is 0: no dim is rotated"});
    return facts;
  }
  static constexpr auto fields() {
    using config::field;
    using C = SoapConfig;
    return config::Fields{
        field<&C::beta1>("Decay of the gradient's average.", config::below_one),
        field<&C::beta2>("Decay of the squared gradient's average.", config::below_one),
        field<&C::shampoo_beta>("Decay of the preconditioners; null takes beta2.", config::below_one),
        field<&C::eps>("Added to the denominator.", config::non_negative),
        field<&C::precondition_frequency>("Updates from one change of the eigenbases to the next.",
                                          config::at_least(1)),
        field<&C::max_precond_dim>("Dims of more entries aren't rotated: a dim of n entries takes two matrices of n².",
                                   config::at_least(0)),
        field<&C::precondition_1d>("Rotate vectors too, such as biases."),
    };
  }
};

using UpdateRuleConfig =
    config::OneOf<AdamWConfig, SgdConfig, AdamConfig, RmspropConfig, LionConfig, ScheduleFreeConfig, MuonConfig,
                  SoapConfig, LambConfig, AdafactorConfig, PluggedRuleConfig>;
static_assert(config::kHaveTraits<UpdateRuleConfig, OptimizerTraits> &&
              config::kHaveFacts<UpdateRuleConfig, OptimizerFacts>);

}  // namespace trainctl::optimizer

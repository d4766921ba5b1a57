// `task:`: what a batch means: the loss that is minimised and the metrics that are reported.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/field.h"
#include "config/traits.h"
#include "dataset/config.h"
#include "model/traits.h"
#include "task/distillation_config.h"
#include "task/dpo_config.h"
#include "task/image_task_config.h"
#include "task/metric_config.h"
#include "task/metric_names.h"
#include "task/plugged_task.h"
#include "task/traits.h"

namespace trainctl::task {

/// How much a sample counts in the loss, by its class.
enum class ClassWeighting {
  none,
  balanced,  // samples / (classes × samples of the class), as scikit-learn's class_weight="balanced"
};

struct ClassificationConfig {
  static constexpr std::string_view kind = "classification";
  double label_smoothing = 0;
  ClassWeighting class_weighting = ClassWeighting::none;
  std::vector<double> class_weights{};
  double focal_gamma = 0;
  double mixup = 0;
  double cutmix = 0;
  std::vector<ClassificationMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = ClassificationConfig;
    return config::Fields{
        field<&C::label_smoothing>("Share of the target spread over all classes.", config::below_one),
        field<&C::class_weighting>("`balanced`: a rare class counts as much in the loss as a frequent one."),
        field<&C::class_weights>(
            "The weight of each class in the loss, in the order of the classes; empty: all count as "
            "one. The loss is divided by the weights of a step's samples, as PyTorch's is.",
            config::positive),
        field<&C::focal_gamma>("Exponent of the focal loss, which plays down samples that are easy "
                               "(https://arxiv.org/abs/1708.02002); 0 is cross-entropy.",
                               config::non_negative),
        field<&C::mixup>(
            "Alpha of the Beta distribution that blends pairs of images (https://arxiv.org/abs/1710.09412); 0 is off.",
            config::non_negative),
        field<&C::cutmix>("Alpha of the Beta distribution that pastes a rectangle of another image "
                          "(https://arxiv.org/abs/1905.04899); 0 is off. With mixup too, each batch takes one of them.",
                          config::non_negative),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{.output = model::Output::per_sample, .has_classes = true, .takes_teacher = true};
  /// Returns the key that gives classes their weights.
  std::string weight_key() const { return class_weights.empty() ? "task.class_weighting" : "task.class_weights"; }
  std::vector<config::BrokenRule> broken_rules(const Surroundings& around) const {
    std::vector<config::BrokenRule> broken;
    const bool mixes = mixup > 0 || cutmix > 0;
    const bool weighs = !class_weights.empty() || class_weighting != ClassWeighting::none;
    if (!class_weights.empty() && class_weighting != ClassWeighting::none)
      broken.push_back(
          {{"task.class_weighting", "task.class_weights"}, "task.class_weights is given too; give one of them"});
    if (weighs && mixes)
      broken.push_back({{weight_key(), "task.mixup", "task.cutmix"},
                        "mixup and cutmix give a sample two classes, and so no weight"});
    if (focal_gamma > 0 && (mixes || label_smoothing > 0))
      broken.push_back({{"task.focal_gamma", "task.mixup", "task.cutmix", "task.label_smoothing"},
                        "the focal loss looks at one class of a sample; leave out mixup, cutmix and label_smoothing"});
    if (around.has_images) return broken;
    const std::string has_none = "; " + std::string(around.dataset) + " has none";
    if (mixup > 0) broken.push_back({{"task.mixup", "dataset.kind"}, "mixup blends images" + has_none});
    if (cutmix > 0) broken.push_back({{"task.cutmix", "dataset.kind"}, "cutmix pastes images" + has_none});
    return broken;
  }
};

/// A number for each sample; the loss is the mean squared error.
struct RegressionConfig {
  static constexpr std::string_view kind = "regression";
  std::vector<RegressionMetric> metrics{};

  static constexpr auto fields() { return config::Fields{config::field<&RegressionConfig::metrics>(help::metrics)}; }
  static constexpr TaskTraits traits{.output = model::Output::per_sample, .has_classes = false, .takes_teacher = false};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

/// A class for each token: named entities, parts of speech.
struct TokenClassificationConfig {
  static constexpr std::string_view kind = "token_classification";
  double label_smoothing = 0;
  std::vector<TokenClassificationMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = TokenClassificationConfig;
    return config::Fields{
        field<&C::label_smoothing>("Share of the target spread over all classes.", config::below_one),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{.output = model::Output::per_token, .has_classes = true, .takes_teacher = true};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

/// Each token's successor; the loss is in nats for each token.
struct CausalLmConfig {
  static constexpr std::string_view kind = "causal_lm";
  double label_smoothing = 0;
  config::AutoOr<std::int64_t> loss_chunk_size;
  std::vector<CausalLmMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = CausalLmConfig;
    return config::Fields{
        field<&C::label_smoothing>("Share of the target spread over the whole vocabulary.", config::below_one),
        field<&C::loss_chunk_size>("Tokens whose logits are in memory at once; `auto` takes up to 128 MiB of them.",
                                   config::at_least(1)),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{.output = model::Output::next_tokens, .has_classes = false, .takes_teacher = true};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

/// Tokens that were masked (https://arxiv.org/abs/1810.04805); the loss is in nats for each of them.
struct MaskedLmConfig {
  static constexpr std::string_view kind = "masked_lm";
  double label_smoothing = 0;
  config::AutoOr<std::int64_t> loss_chunk_size;
  std::vector<MaskedLmMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = MaskedLmConfig;
    return config::Fields{
        field<&C::label_smoothing>("Share of the target spread over the whole vocabulary.", config::below_one),
        field<&C::loss_chunk_size>("Tokens whose logits are in memory at once; `auto` takes up to 128 MiB of them.",
                                   config::at_least(1)),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{
      .output = model::Output::masked_tokens, .has_classes = false, .takes_teacher = true};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

/// The tokens of a target text, given its source; the loss is in nats for each of them.
struct Seq2SeqLmConfig {
  static constexpr std::string_view kind = "seq2seq_lm";
  double label_smoothing = 0;
  config::AutoOr<std::int64_t> loss_chunk_size;
  std::vector<Seq2SeqLmMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = Seq2SeqLmConfig;
    return config::Fields{
        field<&C::label_smoothing>("Share of the target spread over the whole vocabulary.", config::below_one),
        field<&C::loss_chunk_size>("Tokens whose logits are in memory at once; `auto` takes up to 128 MiB of them.",
                                   config::at_least(1)),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{
      .output = model::Output::target_tokens, .has_classes = false, .takes_teacher = true};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const { return {}; }
};

using OwnTaskConfig =
    config::OneOf<ClassificationConfig, RegressionConfig, TokenClassificationConfig, CausalLmConfig, MaskedLmConfig,
                  Seq2SeqLmConfig, MultiLabelClassificationConfig, SemanticSegmentationConfig, DpoConfig>;
using TaskConfig = config::WithKind<OwnTaskConfig, PluggedTaskConfig>::type;

/// Returns the kind of our tasks that data with such targets is for.
constexpr std::string_view task_for(dataset::Targets targets) {
  switch (targets) {
    case dataset::Targets::labels:
      return ClassificationConfig::kind;
    case dataset::Targets::label_sets:
      return MultiLabelClassificationConfig::kind;
    case dataset::Targets::class_masks:
      return SemanticSegmentationConfig::kind;
    case dataset::Targets::values:
      return RegressionConfig::kind;
    case dataset::Targets::token_labels:
      return TokenClassificationConfig::kind;
    case dataset::Targets::next_tokens:
      return CausalLmConfig::kind;
    case dataset::Targets::masked_tokens:
      return MaskedLmConfig::kind;
    case dataset::Targets::preferences:
      return DpoConfig::kind;
    case dataset::Targets::target_tokens:
      return Seq2SeqLmConfig::kind;
  }
  throw std::logic_error("unknown targets");
}

/// Returns whether a task is for data with such targets.
inline bool is_for(const TaskConfig& task, dataset::Targets targets) {
  if (const auto* plugged = task.get_if<PluggedTaskConfig>()) return plugged->interface().targets == targets;
  return task.kind() == task_for(targets);
}

/// Returns the task that data with such targets is for, with its defaults.
inline TaskConfig default_task(dataset::Targets targets) {
  switch (targets) {
    case dataset::Targets::labels:
      return ClassificationConfig{};
    case dataset::Targets::label_sets:
      return MultiLabelClassificationConfig{};
    case dataset::Targets::class_masks:
      return SemanticSegmentationConfig{};
    case dataset::Targets::values:
      return RegressionConfig{};
    case dataset::Targets::token_labels:
      return TokenClassificationConfig{};
    case dataset::Targets::next_tokens:
      return CausalLmConfig{};
    case dataset::Targets::masked_tokens:
      return MaskedLmConfig{};
    case dataset::Targets::preferences:
      return DpoConfig{};
    case dataset::Targets::target_tokens:
      return Seq2SeqLmConfig{};
  }
  throw std::logic_error("unknown targets");
}

/// A kind of task with its traits.
struct TaskKind {
  std::string_view kind;
  const TaskTraits* traits;
};

/// Every kind but those of plug-ins, in the order of TaskConfig.
inline constexpr auto kTaskKinds = []<class... Tasks>(std::type_identity<config::OneOf<Tasks...>>) {
  static_assert((states_its_traits<Tasks>() && ...));
  return std::array{TaskKind{Tasks::kind, &Tasks::traits}...};
}(std::type_identity<OwnTaskConfig>());

}  // namespace trainctl::task

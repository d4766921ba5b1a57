// `task:`: what a batch means: the loss that is minimised and the metrics that are reported.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

#include "config/field.h"
#include "dataset/config.h"

namespace trainctl::task {

/// A metric of an evaluation, by its name in logs and in `checkpoint.best`.
struct MetricName {
  std::string_view name;
  enum class Best { lowest, highest } best;
};

struct ClassificationConfig {
  static constexpr std::string_view kind = "classification";
  double label_smoothing = 0;
  double mixup = 0;
  double cutmix = 0;

  static constexpr auto fields() {
    using config::field;
    using C = ClassificationConfig;
    return std::tuple{
        field<&C::label_smoothing>("Share of the target spread over all classes.", config::below_one),
        field<&C::mixup>(
            "Alpha of the Beta distribution that blends pairs of images (https://arxiv.org/abs/1710.09412); 0 is off.",
            config::non_negative),
        field<&C::cutmix>("Alpha of the Beta distribution that pastes a rectangle of another image "
                          "(https://arxiv.org/abs/1905.04899); 0 is off. With mixup too, each batch takes one of them.",
                          config::non_negative),
    };
  }
  /// f1 (of class 1) where there are two classes, top5_accuracy where there are more than five.
  static constexpr std::array metrics = {
      MetricName{"loss", MetricName::Best::lowest},      MetricName{"accuracy", MetricName::Best::highest},
      MetricName{"f1", MetricName::Best::highest},       MetricName{"top5_accuracy", MetricName::Best::highest},
      MetricName{"f1_macro", MetricName::Best::highest}, MetricName{"matthews", MetricName::Best::highest},
  };
};

/// A number for each sample; the loss is the mean squared error.
struct RegressionConfig {
  static constexpr std::string_view kind = "regression";
  static constexpr auto fields() { return std::tuple{}; }
  static constexpr std::array metrics = {
      MetricName{"loss", MetricName::Best::lowest},
      MetricName{"pearson", MetricName::Best::highest},
      MetricName{"spearman", MetricName::Best::highest},
  };
};

/// A class for each token: named entities, parts of speech.
struct TokenClassificationConfig {
  static constexpr std::string_view kind = "token_classification";
  double label_smoothing = 0;

  static constexpr auto fields() {
    return std::tuple{config::field<&TokenClassificationConfig::label_smoothing>(
        "Share of the target spread over all classes.", config::below_one)};
  }
  /// span_f1 where the classes are called O, B-… and I-…, else f1_macro.
  static constexpr std::array metrics = {
      MetricName{"loss", MetricName::Best::lowest},
      MetricName{"accuracy", MetricName::Best::highest},
      MetricName{"span_f1", MetricName::Best::highest},
      MetricName{"f1_macro", MetricName::Best::highest},
  };
};

/// Each token's successor; the loss is in nats for each token.
struct CausalLmConfig {
  static constexpr std::string_view kind = "causal_lm";
  double label_smoothing = 0;
  config::AutoOr<std::int64_t> loss_chunk_size;

  static constexpr auto fields() {
    using config::field;
    using C = CausalLmConfig;
    return std::tuple{
        field<&C::label_smoothing>("Share of the target spread over the whole vocabulary.", config::below_one),
        field<&C::loss_chunk_size>("Tokens whose logits are in memory at once; `auto` takes some tens of MiB of them.",
                                   config::at_least(1)),
    };
  }
  static constexpr std::array metrics = {
      MetricName{"loss", MetricName::Best::lowest},
      MetricName{"perplexity", MetricName::Best::lowest},
      MetricName{"bits_per_byte", MetricName::Best::lowest},
  };
};

/// Tokens that were masked (https://arxiv.org/abs/1810.04805); the loss is in nats for each of them.
struct MaskedLmConfig {
  static constexpr std::string_view kind = "masked_lm";
  double label_smoothing = 0;
  config::AutoOr<std::int64_t> loss_chunk_size;

  static constexpr auto fields() {
    using config::field;
    using C = MaskedLmConfig;
    return std::tuple{
        field<&C::label_smoothing>("Share of the target spread over the whole vocabulary.", config::below_one),
        field<&C::loss_chunk_size>("Tokens whose logits are in memory at once; `auto` takes some tens of MiB of them.",
                                   config::at_least(1)),
    };
  }
  static constexpr std::array metrics = {
      MetricName{"loss", MetricName::Best::lowest},
      MetricName{"perplexity", MetricName::Best::lowest},
      MetricName{"accuracy", MetricName::Best::highest},
  };
};

using TaskConfig =
    config::OneOf<ClassificationConfig, RegressionConfig, TokenClassificationConfig, CausalLmConfig, MaskedLmConfig>;

/// Returns the kind of task that data with such targets is for.
constexpr std::string_view task_for(dataset::Targets targets) {
  switch (targets) {
    case dataset::Targets::labels:
      return ClassificationConfig::kind;
    case dataset::Targets::values:
      return RegressionConfig::kind;
    case dataset::Targets::token_labels:
      return TokenClassificationConfig::kind;
    case dataset::Targets::next_tokens:
      return CausalLmConfig::kind;
    case dataset::Targets::masked_tokens:
      return MaskedLmConfig::kind;
  }
  throw std::logic_error("unknown targets");
}

}  // namespace trainctl::task

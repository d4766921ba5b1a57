// The task of preferences. Part of task/config.h; without LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "task/metric_names.h"
#include "task/traits.h"

namespace trainctl::task {

/// How the margin of a pair becomes a loss.
enum class PreferenceLoss {
  sigmoid,  // https://arxiv.org/abs/2305.18290
  hinge,    // https://arxiv.org/abs/2305.10425
  ipo,      // https://arxiv.org/abs/2310.12036, of mean log-probabilities, as TRL has it
};

/// Direct preference optimisation: the preferred answer of a pair becomes likelier than the other, compared with a
/// reference.
struct DpoConfig {
  static constexpr std::string_view kind = "dpo";
  double beta = 0.1;
  PreferenceLoss loss_type = PreferenceLoss::sigmoid;
  double label_smoothing = 0;
  std::optional<std::string> reference{};
  config::AutoOr<std::int64_t> loss_chunk_size;
  std::vector<DpoMetric> metrics{};

  static constexpr auto fields() {
    using config::field;
    using C = DpoConfig;
    return config::Fields{
        field<&C::beta>("How strongly the network is held to the reference: rewards are beta times the logarithm of "
                        "how much likelier it finds an answer.",
                        config::positive),
        field<&C::loss_type>("`sigmoid` is DPO's, the cross-entropy of the preference; `hinge` that of SLiC; `ipo` the "
                             "squared distance of the margin from 1 / (2 beta)."),
        field<&C::label_smoothing>("Share of the pairs whose preference is taken to be wrong (conservative DPO).",
                                   config::below_one),
        field<&C::reference>("Weights of the reference, a network of the same sizes: as model.init_from. Null takes "
                             "model.init_from, with which training begins.",
                             config::non_empty),
        field<&C::loss_chunk_size>("Tokens whose logits are in memory at once; `auto` takes up to 128 MiB of them.",
                                   config::at_least(1)),
        field<&C::metrics>(help::metrics),
    };
  }
  static constexpr TaskTraits traits{
      .output = model::Output::next_tokens, .has_classes = false, .takes_teacher = false};
  std::vector<config::BrokenRule> broken_rules(const Surroundings&) const {
    if (label_smoothing > 0 && loss_type != PreferenceLoss::sigmoid)
      return {{{"task.label_smoothing", "task.loss_type"}, "only the sigmoid loss has a part for wrong preferences"}};
    return {};
  }
};

}  // namespace trainctl::task

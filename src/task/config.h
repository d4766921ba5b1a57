// `task:`: what a batch means: the loss that is minimised and the metrics that are reported.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl {

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
};

using TaskConfig = config::OneOf<ClassificationConfig>;

}  // namespace trainctl

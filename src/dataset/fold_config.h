// `dataset.fold`: one of k parts of the training samples is the evaluation set.
#pragma once

#include <cstdint>

#include "config/field.h"

namespace trainctl::dataset {

struct FoldConfig {
  std::int64_t count = 5;
  std::int64_t index = 0;
  std::int64_t seed = 0;

  static constexpr auto fields() {
    using config::field;
    using C = FoldConfig;
    return config::Fields{
        field<&C::count>("Folds, of equal size to within one sample; each class is dealt to them evenly, too.",
                         config::between(2, 1000)),
        field<&C::index>("The fold to evaluate on, from 0; the run trains on the others.", config::at_least(0)),
        field<&C::seed>("Another seed deals other samples to the folds.", config::any_seed),
    };
  }
};

}  // namespace trainctl::dataset

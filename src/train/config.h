// `train:` and `accumulation:`: how long, how often, and in how many pieces.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace trainctl::train {

enum class LrScaling { none, linear, sqrt };
enum class BatchNormUpdate { every_micro_batch, full_cycle };

struct AccumulationConfig {
  std::int64_t steps = 1;
  LrScaling lr_scaling = LrScaling::none;
  std::int64_t base_batch_size = 256;
  BatchNormUpdate batch_norm = BatchNormUpdate::every_micro_batch;

  static constexpr auto fields() {
    using config::field;
    using C = AccumulationConfig;
    return std::tuple{
        field<&C::steps>("Micro-batches in one optimizer step.", config::between(1, 1'073'741'824)),
        field<&C::lr_scaling>("Multiply lr by the global batch over base_batch_size "
                              "(https://arxiv.org/abs/1706.02677), or by its square root."),
        field<&C::base_batch_size>("Samples in a step for which lr was chosen.", config::at_least(1)),
        field<&C::batch_norm>(
            "Update BatchNorm's running statistics at every micro-batch, or once a step from all of them."),
    };
  }
};

enum class NonFinite { stop, skip, rollback };

struct TrainConfig {
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::int64_t eval_every = 0;
  std::int64_t log_every = 20;
  NonFinite on_non_finite = NonFinite::stop;
  std::int64_t max_rollbacks = 3;
  double hang_after = 50;
  double hang_after_s = 60;

  static constexpr auto fields() {
    using config::field;
    using C = TrainConfig;
    return std::tuple{
        field<&C::epochs>("Passes over the training set; give this or steps.", config::at_least(1)),
        field<&C::steps>("Optimizer steps; give this or epochs.", config::at_least(1)),
        field<&C::eval_every>("Steps between evaluations; 0 evaluates at the end alone.", config::at_least(0)),
        field<&C::log_every>("Steps between log records.", config::at_least(1)),
        field<&C::on_non_finite>("When the loss is not finite: stop the run, skip the update, or go back to the last "
                                 "checkpoint with other data."),
        field<&C::max_rollbacks>("Rollbacks after which the run stops.", config::at_least(1)),
        field<&C::hang_after>("Without a step for this many times the median one, the run is said to hang: what each "
                              "rank does, its last spans and the stacks of its threads go into hang/ of the run "
                              "directory, and the run waits on. 0 never does.",
                              config::non_negative),
        field<&C::hang_after_s>("Seconds that must pass at least before that; ten times as many for the first steps.",
                                config::positive),
    };
  }
};

}  // namespace trainctl::train

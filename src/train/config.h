// `train:` and `accumulation:`: how long, how often, and in how many pieces.
#pragma once

#include <cstdint>
#include <optional>

#include "config/field.h"

namespace trainctl::train {

enum class BatchNormUpdate { per_micro_batch, per_step };

struct AccumulationConfig {
  std::int64_t steps = 1;
  BatchNormUpdate batch_norm_update = BatchNormUpdate::per_micro_batch;

  static constexpr auto fields() {
    using config::field;
    using C = AccumulationConfig;
    return std::tuple{
        field<&C::steps>("Micro-batches in one optimizer step.", config::between(1, 1'073'741'824)),
        field<&C::batch_norm_update>(
            "Update BatchNorm's running statistics at every micro-batch, or once a step from all of them."),
    };
  }
};

struct WatchdogConfig {
  double step_multiple = 50;
  double min_timeout_s = 60;

  static constexpr auto fields() {
    using config::field;
    using C = WatchdogConfig;
    return std::tuple{
        field<&C::step_multiple>(
            "The watchdog reports a hang if no step ends within this multiple of the median step time. It writes each "
            "rank's collectives, spans and stacks to stacks/ of the run directory; the run continues. 0 turns it off.",
            config::non_negative),
        field<&C::min_timeout_s>("Shortest time before such a report; ten times as long for the first steps; seconds.",
                                 config::positive),
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
  WatchdogConfig watchdog{};

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
        field<&C::watchdog>("Reports steps that don't end."),
    };
  }
};

}  // namespace trainctl::train

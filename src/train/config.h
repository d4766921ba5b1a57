// `train:` and `accumulation:`: how long, how often, and in how many pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/config.h"
#include "config/field.h"

namespace trainctl::train {

enum class BatchNormUpdate { per_micro_batch, per_step };

struct AccumulationConfig {
  std::int64_t steps = 1;
  BatchNormUpdate batch_norm_update = BatchNormUpdate::per_micro_batch;

  static constexpr auto fields() {
    using config::field;
    using C = AccumulationConfig;
    return config::Fields{
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
    return config::Fields{
        field<&C::step_multiple>(
            "The watchdog reports a hang if no step ends within this multiple of the median step time. It writes each "
            "rank's collectives, spans and stacks to stacks/ of the run directory; the run continues. 0 turns it off.",
            config::non_negative),
        field<&C::min_timeout_s>("Shortest time before such a report; ten times as long for the first steps; seconds.",
                                 config::positive),
    };
  }
};

struct EarlyStoppingConfig {
  std::int64_t patience = 3;
  std::string metric = "loss";
  checkpoint::MetricOrder mode = checkpoint::MetricOrder::min;
  double min_delta = 0;

  static constexpr auto fields() {
    using config::field;
    using C = EarlyStoppingConfig;
    return config::Fields{
        field<&C::patience>("Evaluations without an improvement after which the run ends.", config::at_least(1)),
        field<&C::metric>("Evaluation metric that decides.", config::non_empty),
        field<&C::mode>("Whether the largest or the smallest value is best."),
        field<&C::min_delta>("Smallest change that is an improvement.", config::non_negative),
    };
  }
};

enum class NonFinite { stop, skip, rollback };

enum class SpikeAction { warn, rollback };

struct LossSpikesConfig {
  std::int64_t window = 128;
  double loss_z = 8;
  double grad_norm_z = 4;
  SpikeAction action = SpikeAction::warn;

  static constexpr auto fields() {
    using config::field;
    using C = LossSpikesConfig;
    return config::Fields{
        field<&C::window>("Steps that a step is compared with; half as many come before the first comparison.",
                          config::between(8, 65536)),
        field<&C::loss_z>("A spike's loss is above the median by more than this many robust standard deviations.",
                          config::positive),
        field<&C::grad_norm_z>("So is the logarithm of its gradient norm by this many.", config::positive),
        field<&C::action>(
            "After a spike: warn, or go back to the last checkpoint and on with the data after the spike."),
    };
  }
};

enum class Graph { none, whole_step };

struct TrainConfig {
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  config::AutoOr<std::int64_t> eval_every;
  std::optional<std::int64_t> eval_steps;
  std::optional<EarlyStoppingConfig> early_stopping{};
  std::int64_t log_every = 20;
  NonFinite on_non_finite = NonFinite::stop;
  std::optional<LossSpikesConfig> loss_spikes{};
  std::int64_t max_rollbacks = 3;
  WatchdogConfig watchdog{};
  Graph graph = Graph::none;

  static constexpr auto fields() {
    using config::field;
    using C = TrainConfig;
    return config::Fields{
        field<&C::epochs>("Passes over the training set; give this or steps.", config::at_least(1)),
        field<&C::steps>("Optimizer steps; give this or epochs.", config::at_least(1)),
        field<&C::eval_every>(
            "Steps between evaluations, and one at the end; `auto` evaluates at the end alone; 0 never "
            "evaluates.",
            config::at_least(0)),
        field<&C::eval_steps>("Batches of an evaluation at most, of a random sample that is the same in each "
                              "evaluation and run; left out, an "
                              "evaluation takes the whole set. `trainctl eval` takes all of it.",
                              config::at_least(1)),
        field<&C::early_stopping>("Ends the run when evaluations no longer improve."),
        field<&C::log_every>("Steps between log records.", config::at_least(1)),
        field<&C::on_non_finite>("When the loss is not finite: stop the run, skip the update, or go back to the last "
                                 "checkpoint with other data."),
        field<&C::loss_spikes>(
            "Watches for steps whose loss and gradient norm both stand out, and lists their samples in "
            "loss_spikes.jsonl; waits for the device at each step; null is off."),
        field<&C::max_rollbacks>("Rollbacks after which the run stops.", config::at_least(1)),
        field<&C::watchdog>("Reports steps that don't end."),
        field<&C::graph>("What of a step is recorded once and then launched as one: nothing, or all that the GPU does, "
                         "as a CUDA graph. For small networks, whose kernels end before the next one starts."),
    };
  }
};

/// Returns the steps between evaluations; 0 if only the end is evaluated, or nothing.
inline std::int64_t eval_interval(const TrainConfig& config) {
  return config.eval_every.value.value_or(0);
}
/// Returns whether the run ends with an evaluation.
inline bool evaluates_at_end(const TrainConfig& config) {
  return config.eval_every.is_auto() || *config.eval_every.value > 0;
}

}  // namespace trainctl::train

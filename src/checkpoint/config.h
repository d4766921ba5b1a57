// `checkpoint:`: how often the run's state is saved, and what is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/field.h"

namespace trainctl::checkpoint {

enum class MetricOrder { max, min };

struct BestConfig {
  static constexpr std::string_view short_form = "metric";  // best: accuracy
  std::string metric = "accuracy";
  MetricOrder mode = MetricOrder::max;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&BestConfig::metric>("Evaluation metric that decides.", config::non_empty),
        field<&BestConfig::mode>("Whether the largest or the smallest value is best."),
    };
  }
};

struct SnapshotConfig {
  std::int64_t every = 20;
  std::string path;

  static constexpr auto fields() {
    using config::field;
    return config::Fields{
        field<&SnapshotConfig::every>("Steps between snapshots.", config::at_least(1)),
        field<&SnapshotConfig::path>("Where each node keeps its newest two: memory, or a disk of its own; empty "
                                     "takes /dev/shm, or where there is none the directory for temporary files."),
    };
  }
};

struct CheckpointConfig {
  std::int64_t every = 0;
  std::int64_t keep_last = 2;
  std::optional<BestConfig> best{};
  std::optional<SnapshotConfig> in_memory{};
  bool async = true;

  static constexpr auto fields() {
    using config::field;
    using C = CheckpointConfig;
    return config::Fields{
        field<&C::every>("Steps between checkpoints; 0 saves at the end (and when stopped) alone.",
                         config::at_least(0)),
        field<&C::keep_last>("Newest checkpoints that are kept.", config::at_least(1)),
        field<&C::best>("Keep the checkpoint of the best evaluation too, under `best`."),
        field<&C::in_memory>("Between checkpoints keep the state in each node's memory too: a run whose processes are "
                             "killed goes on from there."),
        field<&C::async>("Write from a copy while training goes on; false takes no memory for a copy, and waits."),
    };
  }
};

}  // namespace trainctl::checkpoint

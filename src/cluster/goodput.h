// The share of a run's time that trains, where devices fail and checkpoints take time.
#pragma once

#include <cstdint>

#include "cluster/tables.h"
#include "cluster/transformer.h"

namespace trainctl::cluster {

/// Interruptions of a run, and what each costs; seconds.
struct Interruptions {
  double mean_time_between = 0;  // of the whole run
  double checkpoint = 0;         // in which training waits for one checkpoint
  double restart = 0;            // from an interruption until training goes on at the last checkpoint
};

struct Goodput {
  double interval = 0;          // of training between two checkpoints; the best one, or the one that was asked for
  double training = 0;          // share of the time that trains and is kept
  double checkpointing = 0;     // share that checkpoints take
  double lost = 0;              // share that is computed again, and in which the run restarts
  std::int64_t num_spares = 0;  // nodes that keep the run from waiting for repairs
};

/// Returns what trains if checkpoints are `interval` apart. Times between interruptions are exponentially distributed,
/// and restarts and checkpoints are interrupted too (Daly, 2006, equation 20).
Goodput goodput_at(const Interruptions& interruptions, double interval);

/// Returns the goodput of the best interval.
Goodput best_goodput(const Interruptions& interruptions);

/// The first-order best interval of Young (1974) and Daly (2006): the root of 2 x checkpoint x mean time.
double young_daly_interval(const Interruptions& interruptions);

/// Returns the least number of spare nodes with which fewer than one in a thousand hours lacks a node. Nodes in repair
/// are Poisson distributed.
std::int64_t spare_nodes(double mean_time_between_s, double repair_s);

/// What is known of a run on `num_devices` devices in nodes of `node_size`.
Interruptions interruptions_of(const Tables& tables, const Transformer& model, std::int64_t num_devices,
                               std::int64_t node_size);

}  // namespace trainctl::cluster

// A schedule with the transfers between its ranks: what a rank does, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "pipeline/schedule.h"

namespace trainctl::pipeline {

/// A computation, or a transfer of what the named action made. The output of a forward pass goes to the next stage, and
/// the gradient of an input to the stage before.
struct Operation {
  enum class Kind : std::uint8_t { compute, send, receive };

  Kind kind = Kind::compute;
  Action action;
  std::int64_t peer = -1;  // the rank at the other end of a transfer

  bool operator==(const Operation&) const = default;
};

/// The stage whose result an action takes: the one before, or after it. None: it needs only the batch, or what its own
/// rank keeps.
std::optional<std::int64_t> source_stage(const Action& action, std::int64_t num_stages);

/// The action whose result this one takes, of those that are `done`: of the next stage, or of the one before. None: it
/// needs only the batch, or what its own rank keeps.
std::optional<Action> source_of(const Action& action, std::int64_t num_stages, const std::set<Action>& done);

/// Returns the operations of each rank. They agree with one order of all, so a rank may wait for each transfer at its
/// place. Between two ranks the n-th send meets the n-th receive: backends without tags (NCCL) match them. A receive
/// stands as early as the tensor exists, so that it can be waited for later. Throws Error that names
/// who waits for what, if the schedule can't come to its end.
std::vector<std::vector<Operation>> operations_of(const Schedule& schedule);

/// Executes the lists against each other, as a backend does that ends a transfer only where both ranks have come to it.
/// Throws Error, naming each rank's place, if they don't come to their end.
void check_order(const std::vector<std::vector<Operation>>& ranks);

/// The most micro-batches, times stages, whose activations a rank keeps at once.
std::int64_t peak_live(const std::vector<Action>& actions);

}  // namespace trainctl::pipeline

// The sinks, one file each. `build` chooses among them.
#pragma once

#include <memory>

#include "core/clock.h"
#include "tracking/event.h"
#include "tracking/tracking.h"

namespace trainctl::tracking {

enum class Verbosity { normal, quiet };

/// Plain lines on a file descriptor; quiet says only what went wrong. The descriptor stays the caller's.
std::unique_ptr<Sink> make_console(int descriptor, Verbosity verbosity);

/// A bar in the last line of a terminal, log lines above it. The descriptor stays the caller's.
std::unique_ptr<Sink> make_progress_bar(int descriptor, core::Clock now = &core::steady_now);

/// metrics.jsonl. A resumed run first cuts off the records after its first step.
std::unique_ptr<Sink> make_jsonl(const TrackerOptions& options);

/// Makes the sink of `logs/samples_rank_<n>.jsonl`, with one line per micro-batch. The line is written before the ranks
/// sum the gradients, so the samples of every step are recorded.
std::unique_ptr<Sink> make_samples(const TrackerOptions& options);

/// notices.jsonl: what the console told beside the figures, warnings too, with the time.
std::unique_ptr<Sink> make_notices(const TrackerOptions& options);

/// evaluation.json and predictions.json after evaluations, summary.json at the end.
std::unique_ptr<Sink> make_summary(const TrackerOptions& options);

}  // namespace trainctl::tracking

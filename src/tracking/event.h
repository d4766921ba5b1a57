// What happens in a run, as values. Sinks look at events, they can't steer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trainctl::tracking {

struct RunStarted {
  std::string name;
  std::string run_directory;
  std::int64_t total_steps = 0;
  std::int64_t first_step = 0;   // > 0 after a resume
  std::int64_t num_samples = 0;  // of an epoch
  std::int64_t num_classes = 0;  // 0: there are none
  std::int64_t num_eval_samples = 0;
  std::int64_t batch_size = 0;       // samples per step, over all ranks
  std::int64_t steps_per_epoch = 0;  // 0: unknown
  std::int64_t schedule_offset = 0;  // steps of this batch by which epochs are ahead of the step, after another batch
  std::int64_t num_parameters = 0;
  std::string model;      // its kind
  std::string precision;  // as amp.mode
  std::string device;
  bool is_on_gpu = false;
  std::string report;          // path of the page that is written at the end; "": none is
  std::string next_command;    // for the trained model
  std::string resume_command;  // for a run that is stopped
};

/// The value of the metric that decides which evaluation is the best one.
struct BestValue {
  std::string metric;
  double value = 0;
  std::int64_t step = 0;
};

/// A window of steps that ends with `step` (1-based: the number of updates made).
struct StepLogged {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::optional<double> loss;       // mean over the window's updates; nothing: all of them were skipped
  double lr = 0;                    // of the last step
  std::optional<double> grad_norm;  // of the last step
  std::optional<double> loss_scale;
  double samples_per_s = 0;
  double tokens_per_s = 0;                         // 0: images
  double step_ms = 0;                              // mean over the window
  double data_wait_ms = 0;                         // mean over the window
  std::optional<double> mfu;                       // of all ranks, over the window
  std::optional<double> communication_ms;          // a step, of several ranks: mean over ranks and window
  std::optional<double> exposed_communication_ms;  // of that, nothing else was done
  double memory_mib = 0;                           // peak of tensor memory so far
  std::int64_t num_skipped = 0;                    // updates skipped so far, for overflow or a non-finite loss
};

/// A rank begins to compute on a micro-batch: samples [first, first + count) of the epoch's order.
struct BatchTaken {
  std::int64_t step = 0;  // that it is part of, 1-based
  std::int64_t epoch = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Progress between log records; for bars, never written to files.
struct Progress {
  std::int64_t step = 0;
  std::string phase;  // "train", "eval"
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::optional<double> loss = {};  // mean since the last record; it is read from the device now and then
};

struct Evaluated {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> metrics;
  std::string details;  // JSON or ""
  double seconds = 0;
  std::optional<BestValue> best = {};  // so far
};

/// Samples of an evaluation with what the model answered, as JSON.
struct SamplesPredicted {
  std::string document;
};

/// How a tensor's values are distributed.
struct Histogram {
  double low = 0, high = 0;          // the smallest and largest finite value
  std::vector<std::int64_t> counts;  // of equally wide bins from low to high; empty: no value is finite

  /// Returns where bin i begins, and where the one before it ends.
  double edge(std::size_t i) const {
    return i == counts.size() ? high : low + static_cast<double>(i) * (high - low) / static_cast<double>(counts.size());
  }
};

/// The values of a tensor, such as "weight/conv1.weight" or "gradient/conv1.weight".
struct TensorMeasured {
  std::string name;
  double norm = 0;  // L2
  Histogram histogram;
};

/// The trained weights before the update that `step` ends with, and their gradients over the whole batch, not clipped.
struct ParametersMeasured {
  std::int64_t step = 0;
  std::vector<TensorMeasured> tensors;
};

struct CheckpointSaved {
  std::int64_t step = 0;
  std::string path;
  double seconds = 0;
};

/// The run goes on from its checkpoint of `step`, and withdraws the steps after it.
struct RolledBack {
  std::int64_t step = 0;
};

enum class Level { info, warning };

struct Notice {
  Level level = Level::info;
  std::string text;
};

enum class Outcome { finished, stopped, failed };

/// The memory of a rank's tensors on its device, as of the last step.
struct RankMemory {
  double peak_mib = 0;       // while it trained until then
  double allocated_mib = 0;  // between two steps: parameters, gradients where they are kept, the optimizer's state
};

/// Everything summary.json says.
struct RunFinished {
  Outcome outcome = Outcome::finished;
  std::string error;  // where failed
  std::int64_t steps = 0;
  std::vector<std::pair<std::string, double>> final_metrics;
  std::vector<std::pair<std::string, double>> best_metrics;
  std::int64_t best_step = 0;
  std::optional<BestValue> best;  // of best_metrics
  double wall_s = 0;
  double time_to_first_step_s = 0;
  double median_step_ms = 0;
  double samples_per_s = 0;
  double tokens_per_s = 0;               // 0: images
  double data_wait_share = 0;            // of the steady steps' time
  std::string data_wait_cause = "none";  // disk, decode, transform, too few workers, copy
  std::int64_t data_workers = 0;         // threads of the loader, at the end
  double peak_memory_mib = 0;
  std::vector<RankMemory> memory_by_rank;  // of a run that has ended well
  std::int64_t num_parameters = 0;
  std::int64_t num_skipped = 0;
  std::map<std::string, std::string> provenance;  // versions, config hash, data fingerprint, seed, device
};

using Event = std::variant<RunStarted, StepLogged, BatchTaken, Progress, Evaluated, SamplesPredicted,
                           ParametersMeasured, CheckpointSaved, RolledBack, Notice, RunFinished>;

class Sink {
 public:
  virtual ~Sink() = default;
  /// A Trainer's sink may be called by two threads at once: CheckpointSaved comes from the thread that writes the
  /// checkpoint. A Tracker calls its members one at a time.
  virtual void on(const Event& event) = 0;
};

}  // namespace trainctl::tracking

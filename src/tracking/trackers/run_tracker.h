// What a run's records are turned into: TensorBoard's, Weights & Biases' and other trackers' form. A tracker is a
// function of a run directory; what it delivered last is in its cursor, so each delivery goes on where the last ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tracking/event.h"

namespace trainctl::tracking {

/// A record of metrics.jsonl.
struct MetricRecord {
  std::string kind;                                                // "train", "eval", "parameters"
  std::int64_t step = 0;                                           // 1-based
  double time = 0;                                                 // Unix seconds
  std::vector<std::pair<std::string, double>> values = {};         // "train/loss"; NaN for what isn't finite
  std::vector<std::pair<std::string, Histogram>> histograms = {};  // "parameters/weight/conv1.weight"
  std::string key = {};                                            // differs from that of each other record
};

/// What is known of a run before its end.
struct RunInfo {
  std::filesystem::path directory;
  std::string name;                           // the experiment's
  std::map<std::string, std::string> config;  // "optimizer.lr" -> "0.001"
  std::string key;                            // differs from that of each other run
  double start_time = 0;                      // of its first record, Unix seconds
  std::vector<std::string> names;             // of all values recorded so far
};

/// What is known of a run at its end.
struct RunResult {
  std::string outcome;                 // "finished", "stopped", "failed"
  double time = 0;                     // of its last record, Unix seconds
  nlohmann::ordered_json summary;      // of summary.json
  nlohmann::ordered_json evaluation;   // of evaluation.json; null: there is none
  nlohmann::ordered_json predictions;  // of predictions.json; null: there is none
};

/// How a delivery begins.
enum class Start {
  goes_on,  // after what was delivered
  over,     // replaces what was delivered
};

/// A state that no commit() returned: all is delivered again, as without a state. nlohmann's exceptions mean the same.
struct DamagedState : std::runtime_error {
  DamagedState() : std::runtime_error("damaged state") {}
};

class RunTracker {
 public:
  virtual ~RunTracker() = default;

  /// Prepares the delivery. `state` is what the last commit() returned, or null. Returns false if the delivery cannot
  /// go on, since what was delivered is gone; it then starts over. Throws DamagedState.
  virtual bool open(Start start, const nlohmann::ordered_json& state) = 0;
  /// Takes a record. Returns false if the tracker's form has no place for the record unless all records come again.
  virtual bool add(const MetricRecord& record) = 0;
  /// Delivers the records taken, and returns the state. Throws an Error if the tracker can't be reached; all records
  /// since the last commit are then offered again, to another object.
  virtual nlohmann::ordered_json commit() = 0;
  /// Delivers the run's end, after all records. Returns the state.
  virtual nlohmann::ordered_json finish(const RunResult& result) = 0;
  /// Returns where the run is found: a file, or the address of its page.
  virtual std::string place() const = 0;
};

}  // namespace trainctl::tracking

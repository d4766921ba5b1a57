// The delivery of a run directory to one tracker: it goes on where an earlier one ended, and begins again when the run
// has taken records back.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tracking/trackers/cursor.h"
#include "tracking/trackers/metrics_reader.h"
#include "tracking/trackers/run_tracker.h"
#include "tracking/trackers/tracker_kinds.h"

namespace trainctl::tracking {

/// When the cursor's file is written.
enum class CursorWrites {
  each_time,  // after each delivery
  at_times,   // at most once a second: a tracker in the run directory finds its end again by itself
};

struct DeliveryOptions {
  std::filesystem::path run_directory;
  std::string run_name;
  std::map<std::string, std::string> config;
  TrackerTarget target;
  Start start = Start::goes_on;
  CursorWrites cursor_writes = CursorWrites::each_time;
};

class Delivery {
 public:
  explicit Delivery(DeliveryOptions options);
  ~Delivery();

  /// Delivers the next records, as many as one delivery takes. Returns their number; 0 at the end. After an Error, the
  /// next call begins after the last delivery that went well.
  std::int64_t deliver();
  /// Delivers the run's end if summary.json tells of it, all records are delivered, and that summary was not delivered
  /// before. Returns whether the run has ended.
  bool finish();
  /// Returns where the run is found; "" before the first delivery.
  std::string place() const { return tracker_ ? tracker_->place() : ""; }

 private:
  /// Opens the tracker, once the run has a record.
  void open();
  /// Opens a tracker from the state. Returns false if it can't go on, or if the state is damaged and so dropped.
  bool opens(Start start);
  /// Returns nothing if all records have to come again.
  std::optional<std::int64_t> try_to_deliver();
  void write_cursor(CursorWrites when);

  DeliveryOptions options_;
  RunInfo run_;
  const TrackerKind& kind_;
  Cursor cursor_;
  CursorValue value_;
  MetricsReader reader_;
  std::unique_ptr<RunTracker> tracker_;
  std::chrono::steady_clock::time_point written_{};
  bool is_written_ = true;
};

/// Returns the number of records that are not delivered.
std::int64_t num_undelivered(const std::filesystem::path& run_directory, const std::string& tracker);
/// Whether the run's end is delivered.
bool is_end_delivered(const std::filesystem::path& run_directory, const std::string& tracker);

}  // namespace trainctl::tracking

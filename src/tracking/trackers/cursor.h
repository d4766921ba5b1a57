// How far a run is delivered to a tracker: a file in the run directory, so that the next delivery goes on there. One
// process delivers at a time.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tracking/trackers/metrics_reader.h"

namespace trainctl::tracking {

/// What a cursor's file holds.
struct CursorValue {
  ReadPosition position;
  nlohmann::ordered_json state;  // the tracker's own; null: nothing was delivered
  std::string finished;          // checksum of the summary.json that was delivered; "" for none
};

/// Reads a cursor without its lock. Nothing was delivered if the file is missing or can't be read.
CursorValue read_cursor(const std::filesystem::path& run_directory, const std::string& tracker);

class Cursor {
 public:
  /// Locks the cursor. Throws an Error if another process delivers the run to this tracker.
  Cursor(const std::filesystem::path& run_directory, const std::string& tracker);
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  ~Cursor();

  CursorValue read() const;
  void write(const CursorValue& value) const;

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace trainctl::tracking

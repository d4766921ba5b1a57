// Follows metrics.jsonl from an offset on, while the run still writes. The file is the buffer: a reader keeps one block
// of it in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "tracking/trackers/run_tracker.h"

namespace trainctl::tracking {

/// A place in metrics.jsonl between two lines.
struct ReadPosition {
  std::int64_t offset = 0;
  std::string checksum;  // of the bytes before it
};

/// The records that a run took back by going back to an earlier step.
enum class TakenBack { skip, keep };

class MetricsReader {
 public:
  explicit MetricsReader(std::filesystem::path path, TakenBack taken_back);
  MetricsReader(const MetricsReader&) = delete;
  MetricsReader& operator=(const MetricsReader&) = delete;
  ~MetricsReader();

  /// Goes to the position. Returns false, and goes to the beginning, if the bytes before it are others now: the run was
  /// resumed at an earlier step.
  bool seek(const ReadPosition& position);
  /// Returns the next records, at most so many; none at the file's present end. A torn last line waits for its rest.
  std::vector<MetricRecord> read(std::size_t max_records);
  /// Whether the file was replaced or cut since seek(), or the run took back records that were read. Then all is read
  /// again: seek().
  bool is_outdated() const { return is_outdated_; }
  ReadPosition position() const;

  /// Returns the names of all values up to the end that seek() found, in the order in which they first come.
  const std::vector<std::string>& names() const { return names_; }
  /// Returns the time and key of the first record; 0 and "" if there is none.
  double first_time() const { return first_time_; }
  const std::string& first_key() const { return first_key_; }
  /// Returns step and time of the newest record that was read.
  std::int64_t last_step() const { return last_.step; }
  double last_time() const { return last_time_; }

 private:
  /// A record that comes after records of later steps, which it takes back.
  struct Rollback {
    std::int64_t offset = 0;
    std::int64_t step = 0;
    std::string kind;
  };
  struct Last {
    std::int64_t step = -1;
    std::vector<std::string> kinds;  // of the records of this step
  };

  void open();
  /// Appends a block of the file to the buffer; false at its end.
  bool fill();
  bool was_replaced() const;
  void scan(std::int64_t until);
  void note(const MetricRecord& record, Last& last) const;
  bool goes_back(const MetricRecord& record, const Last& last) const;
  bool is_taken_back(const MetricRecord& record) const;
  /// Returns the next whole line with its end, or "".
  std::string_view next_line();
  void consume(std::string_view line);

  std::filesystem::path path_;
  TakenBack taken_back_;
  int descriptor_ = -1;
  std::string buffer_;
  std::size_t begin_ = 0;  // of the next line in the buffer
  std::int64_t offset_ = 0;
  std::unique_ptr<core::Checksum> checksum_;
  bool is_outdated_ = false;
  std::vector<Rollback> rollbacks_;
  std::vector<std::string> names_;
  double first_time_ = 0;
  std::string first_key_;
  Last last_;
  double last_time_ = 0;
};

/// Returns the number of whole records of metrics.jsonl after the position.
std::int64_t count_records(const std::filesystem::path& path, const ReadPosition& position);

}  // namespace trainctl::tracking

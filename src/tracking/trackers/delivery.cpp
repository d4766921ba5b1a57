#include "tracking/trackers/delivery.h"

#include <sys/stat.h>

#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Records of one delivery: about 15 values each, and MLflow takes 1000 values at once.
constexpr std::size_t kRecordsAtOnce = 60;
constexpr std::chrono::seconds kCursorInterval{1};

fs::path metrics_of(const fs::path& run_directory) {
  return run_directory / "metrics.jsonl";
}

/// Returns a file's JSON; null if the file is missing or is no JSON.
ordered_json read_json(const fs::path& path) {
  if (!fs::exists(path)) return nullptr;
  ordered_json json = core::parse_json_or_discard<ordered_json>(core::read_file(path));
  return json.is_discarded() ? ordered_json(nullptr) : json;
}

std::string checksum_of_summary(const fs::path& run_directory) {
  const fs::path path = run_directory / "summary.json";
  return fs::exists(path) ? core::checksum(core::read_file(path)) : "";
}

/// Returns when a run without times in its records began: config.yaml was written then.
double time_of_start(const fs::path& run_directory) {
  struct stat status {};
  for (const char* name : {"config.yaml", "metrics.jsonl"})
    if (::stat((run_directory / name).c_str(), &status) == 0) return static_cast<double>(status.st_mtim.tv_sec);
  return 0;
}

/// Throws away a tracker that failed: the next delivery opens another from the cursor.
template <class Work>
auto or_without(std::unique_ptr<RunTracker>& tracker, const Work& work) {
  try {
    return work();
  } catch (...) {
    tracker.reset();
    throw;
  }
}

}  // namespace

Delivery::Delivery(DeliveryOptions options)
    : options_(std::move(options)),
      kind_(tracker_kind(options_.target.kind)),
      cursor_(options_.run_directory, options_.target.kind),
      value_(cursor_.read()),
      reader_(metrics_of(options_.run_directory), kind_.taken_back) {
  if (options_.start == Start::over) value_.position = {}, value_.finished.clear();
}

Delivery::~Delivery() {
  try {
    if (!is_written_) cursor_.write(value_);
  } catch (const std::exception&) {  // the next delivery finds the tracker's end by its state
  }
}

void Delivery::open() {
  const bool goes_on = reader_.seek(value_.position) && value_.position.offset > 0;
  if (reader_.first_key().empty()) return;  // the first record tells runs apart
  run_ = {.directory = options_.run_directory,
          .name = options_.run_name,
          .config = options_.config,
          .key = reader_.first_key(),
          .start_time = reader_.first_time() > 0 ? reader_.first_time() : time_of_start(options_.run_directory),
          .names = reader_.names()};
  or_without(tracker_, [&] {
    if (goes_on && opens(Start::goes_on)) return;
    value_.position = {};
    reader_.seek({});
    // A kill while the tracker is rewritten must not leave a cursor that goes on in the middle.
    if (!value_.state.is_null()) cursor_.write(value_);
    if (!opens(Start::over)) opens(Start::over);  // without the state, which was damaged
  });
}

bool Delivery::opens(Start start) {
  tracker_ = kind_.make(options_.target, run_);
  try {
    return tracker_->open(start, value_.state);
  } catch (const ordered_json::exception&) {
    value_.state = nullptr;
  } catch (const DamagedState&) {
    value_.state = nullptr;
  }
  return false;
}

void Delivery::write_cursor(CursorWrites when) {
  is_written_ = false;
  const auto now = std::chrono::steady_clock::now();
  if (when == CursorWrites::at_times && now - written_ < kCursorInterval) return;
  cursor_.write(value_);
  written_ = now;
  is_written_ = true;
}

std::int64_t Delivery::deliver() {
  constexpr int kMostBeginnings = 3;
  for (int beginnings = 0; beginnings < kMostBeginnings; ++beginnings)
    if (const std::optional<std::int64_t> num_delivered = try_to_deliver()) return *num_delivered;
  throw core::Error(metrics_of(options_.run_directory).string() +
                    " has records that go back in an order that no run writes");
}

std::optional<std::int64_t> Delivery::try_to_deliver() {
  if (!tracker_) open();
  if (!tracker_) return 0;
  std::vector<MetricRecord> records = reader_.read(kRecordsAtOnce);
  if (records.empty() && !reader_.is_outdated()) return 0;
  return or_without(tracker_, [&]() -> std::optional<std::int64_t> {
    bool has_place = true;
    for (MetricRecord& record : records) {
      if (record.time == 0) record.time = run_.start_time;
      has_place = has_place && tracker_->add(record);
    }
    if (!has_place || (records.empty() && reader_.is_outdated())) {  // all comes again
      value_.position = {};
      tracker_.reset();
      return std::nullopt;
    }
    value_.state = tracker_->commit();
    value_.position = reader_.position();
    value_.finished.clear();
    write_cursor(options_.cursor_writes);
    return static_cast<std::int64_t>(records.size());
  });
}

bool Delivery::finish() {
  const ordered_json summary = read_json(options_.run_directory / "summary.json");
  if (!tracker_ || core::number_member(summary, "steps").value_or(-1) < static_cast<double>(reader_.last_step()))
    return false;
  const std::string checksum = checksum_of_summary(options_.run_directory);
  if (value_.finished == checksum) return true;
  const std::string outcome = core::text_member(summary, "outcome");
  value_.state = or_without(tracker_, [&] {
    return tracker_->finish({.outcome = outcome.empty() ? "failed" : outcome,
                             .time = reader_.last_time() > 0 ? reader_.last_time() : run_.start_time,
                             .summary = summary,
                             .evaluation = read_json(options_.run_directory / "evaluation.json"),
                             .predictions = read_json(options_.run_directory / "predictions.json")});
  });
  value_.finished = checksum;
  write_cursor(CursorWrites::each_time);
  return true;
}

std::int64_t num_undelivered(const fs::path& run_directory, const std::string& tracker) {
  return count_records(metrics_of(run_directory), read_cursor(run_directory, tracker).position);
}

bool is_end_delivered(const fs::path& run_directory, const std::string& tracker) {
  const std::string delivered = read_cursor(run_directory, tracker).finished;
  return !delivered.empty() && delivered == checksum_of_summary(run_directory);
}

}  // namespace trainctl::tracking

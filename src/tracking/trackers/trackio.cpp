// Writes a run into Trackio's database of the project, in the layout of Trackio 0.24 and later.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>
#include <thread>

#include "core/error.h"
#include "tracking/trackers/environment.h"
#include "tracking/trackers/sqlite.h"
#include "tracking/trackers/tracker_kinds.h"
#include "tracking/trackers/typed_json.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kWaitMs = 10'000;  // as long as Trackio waits

/// The tables that a run's rows are in, as Trackio's schema of version 2 has them.
constexpr const char* kTables = R"sql(
CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,
  run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT);
CREATE TABLE IF NOT EXISTS configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name TEXT NOT NULL,
  config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id));
CREATE TABLE IF NOT EXISTS system_metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
  timestamp TEXT NOT NULL, run_name TEXT NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS idx_metrics_log_id ON metrics(log_id) WHERE log_id IS NOT NULL;
)sql";

/// Returns the directory of Trackio's databases, which its own variables and Hugging Face's name.
fs::path trackio_directory() {
  if (const std::string own = environment_variable("TRACKIO_DIR"); !own.empty()) return own;
  if (const std::string hugging_face = environment_variable("HF_HOME"); !hugging_face.empty())
    return fs::path(hugging_face) / "trackio";
  if (const std::string cache = environment_variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "huggingface" / "trackio";
  return fs::path(environment_variable("HOME")) / ".cache" / "huggingface" / "trackio";
}

/// Returns the project's name as Trackio's file names have it.
std::string file_stem(const std::string& project) {
  std::string stem;
  for (const char c : project)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') stem += c;
  return stem.empty() ? "default" : stem;
}

/// Returns "2026-11-26T15:06:48.859000+00:00".
std::string iso_time(double unix_time) {
  const auto total_ms = static_cast<std::int64_t>(std::llround(unix_time * 1e3));
  const auto seconds = static_cast<std::time_t>(total_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%03d000", static_cast<int>(total_ms % 1000));
  return std::string(text) + fraction + "+00:00";
}

/// The lock that Trackio's writers take.
class TrackioLock {
 public:
  explicit TrackioLock(const fs::path& path) : descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) throw core::system_error("open", path.string());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        continue;
      }
      ::close(descriptor_);
      throw core::Error(path.string() + " has been locked for 10 s").hint("end the program that writes to the project");
    }
  }
  TrackioLock(const TrackioLock&) = delete;
  TrackioLock& operator=(const TrackioLock&) = delete;
  ~TrackioLock() { ::close(descriptor_); }

 private:
  int descriptor_;
};

class TrackioProject final : public RunTracker {
 public:
  TrackioProject(const TrackerTarget& target, const RunInfo& run)
      : run_(run),
        stem_(file_stem(target.project.empty() ? run.name : target.project)),
        path_(trackio_directory() / (stem_ + ".db")),
        name_(run.directory.filename().string()) {}

  bool open(Start start, const ordered_json& state) override {
    run_id_ = state.is_null() ? run_.key : state.at("run_id").get<std::string>();
    starts_over_ = start == Start::over;
    if (!starts_over_ && (state.at("database") != path_.string() || !fs::exists(path_))) return false;
    fs::create_directories(path_.parent_path());
    const TrackioLock lock(lock_path());
    database_.emplace(path_, kWaitMs);
    database_->execute(std::string("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;") + kTables);
    for (const char* column : {"run_id", "log_id"})
      if (database_->run("SELECT name FROM pragma_table_info('metrics') WHERE name = ?", {column}).empty())
        throw core::Error(path_.string() + " is of a Trackio before 0.24, whose rows have no " + column)
            .hint("open the project once with a newer Trackio, which migrates the database");
    return true;
  }

  bool add(const MetricRecord& record) override {
    records_.push_back(record);
    return true;
  }

  ordered_json commit() override {
    const TrackioLock lock(lock_path());
    database_->execute("BEGIN IMMEDIATE");
    try {
      if (starts_over_) begin_run();
      for (const MetricRecord& record : records_) insert(record);
      database_->execute("COMMIT");
    } catch (...) {
      database_->execute("ROLLBACK");
      throw;
    }
    starts_over_ = false;
    records_.clear();
    return {{"run_id", run_id_}, {"database", path_.string()}};
  }

  ordered_json finish(const RunResult& /*result*/) override { return commit(); }
  std::string place() const override { return "run " + name_ + " of project " + stem_ + " in " + path_.string(); }

 private:
  fs::path lock_path() const { return path_.parent_path() / (stem_ + ".lock"); }

  void begin_run() {
    database_->run("DELETE FROM metrics WHERE run_id = ?", {run_id_});
    database_->run("INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)",
                   {run_id_, name_, typed_config(run_.config).dump(), iso_time(run_.start_time)});
  }

  /// Inserts a record once: its log_id is the record's checksum, of which the table holds each once.
  void insert(const MetricRecord& record) {
    ordered_json metrics = ordered_json::object();
    for (const auto& [name, value] : record.values)
      metrics[name] = std::isnan(value) ? ordered_json("NaN") : ordered_json(value);
    database_->run(
        "INSERT OR IGNORE INTO metrics (timestamp, run_id, run_name, step, metrics, log_id) VALUES (?, ?, ?, ?, ?, ?)",
        {iso_time(record.time), run_id_, name_, record.step, metrics.dump(), run_id_ + "-" + record.key});
  }

  RunInfo run_;
  std::string stem_;
  fs::path path_;
  std::string name_;
  std::string run_id_;
  std::optional<SqliteDatabase> database_;
  bool starts_over_ = false;
  std::vector<MetricRecord> records_;
};

}  // namespace

std::unique_ptr<RunTracker> make_trackio(const TrackerTarget& target, const RunInfo& run) {
  return std::make_unique<TrackioProject>(target, run);
}

}  // namespace trainctl::tracking

// Events to the console, metrics.jsonl, summary.json and trackers.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tracking/config.h"
#include "tracking/event.h"

namespace trainctl::tracking {

/// Passes each event to every sink, in order. Safe to call from any thread. That a sink throws is said once: a full
/// disk under the metrics doesn't end the run, and there may be room again later.
class Tracker final : public Sink {
 public:
  void add(std::unique_ptr<Sink> sink);
  void on(const Event& event) override;

 private:
  struct Member {
    std::unique_ptr<Sink> sink;
    bool has_failed = false;
  };

  std::mutex mutex_;
  std::vector<Member> members_;
};

/// How the console shows a run: a bar where a person watches, plain lines elsewhere.
enum class Console { bar, lines, quiet };
/// The records of a process: among processes that train together, one writes the files.
enum class Records { files, none };

/// Returns the time in Unix seconds.
double unix_now();

struct TrackerOptions {
  std::filesystem::path run_directory;
  std::string run_name = {};                       // the experiment's
  std::map<std::string, std::string> config = {};  // "optimizer.lr" -> "0.001", for trackers
  std::function<double()> unix_time = unix_now;    // of records
  Console console = Console::lines;
  Records records = Records::files;
  std::int64_t rank = 0;
  bool resumed = false;         // append to metrics.jsonl
  std::int64_t first_step = 0;  // when resumed, records of later steps are cut off: they will come again
};

/// Takes back what any rank recorded of steps after `first_step`, which will come again. By one rank, before the others
/// begin.
void cut_back_samples(const std::filesystem::path& run_directory, std::int64_t first_step);

/// Returns a sink that starts `trainctl report RUN` at the run's end, after the sinks that write its files.
std::unique_ptr<Sink> make_report_process(const std::filesystem::path& run_directory);

/// The console on stderr, and files in the run directory.
std::unique_ptr<Tracker> build(const TrackingConfig& config, const TrackerOptions& options);

}  // namespace trainctl::tracking

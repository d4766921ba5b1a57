#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "dataset/loader/bad_samples.h"
#include "engine.h"
#include "runtime/device.h"

namespace trainctl::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Usage {
  double cpu_s = 0;
  double peak_rss_mib = 0;
};

Usage usage() {
  struct rusage self {};
  ::getrusage(RUSAGE_SELF, &self);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(self.ru_utime) + seconds(self.ru_stime), static_cast<double>(self.ru_maxrss) / 1024};
}

struct Measured {
  double open_ms = 0;         // files, lists of samples, fingerprint
  double first_batch_ms = 0;  // from then on, at the sample to begin with
  std::int64_t samples = 0;
  double seconds = 0;
  double cpu_s = 0;
  double peak_rss_mib = 0;
  dataset::LoaderStats stats;
  std::int64_t bad_samples = 0;

  double samples_per_s() const { return static_cast<double>(samples) / seconds; }
  double cpu_s_per_1k() const { return 1000 * cpu_s / static_cast<double>(samples); }
  double share(double stage_ms) const {
    const double all = stats.read_ms + stats.decode_ms + stats.transform_ms;
    return all > 0 ? stage_ms / all : 0;
  }
};

/// Takes batches until the time is over; returns the number of samples.
std::int64_t take_batches(dataset::Loader& loader, double seconds) {
  const Clock::time_point begin = Clock::now();
  std::int64_t samples = 0;
  while (seconds_since(begin) < seconds)
    if (const std::optional<dataset::Batch> batch = loader.next()) samples += batch->size();
  return samples;
}

/// Measures the loader. The first part isn't counted: in it files enter the page cache, and threads start.
Measured measure(const dataset::Datasets& data, const cli::DataBenchOptions& options) {
  Measured measured;
  const Clock::time_point sought = Clock::now();
  data.train->seek({.epoch = 0, .sample = options.from});
  data.train->next();
  measured.first_batch_ms = 1000 * seconds_since(sought);
  take_batches(*data.train, options.warmup_s);
  data.train->take_stats();
  const Clock::time_point begin = Clock::now();
  const double cpu = usage().cpu_s;
  measured.samples = take_batches(*data.train, options.seconds);
  measured.seconds = seconds_since(begin);
  measured.cpu_s = usage().cpu_s - cpu;
  measured.peak_rss_mib = usage().peak_rss_mib;
  measured.stats = data.train->take_stats();
  measured.bad_samples = data.bad_samples->count();
  if (measured.samples == 0)
    throw core::Error("no batch was ready within " + core::format_duration(options.seconds))
        .hint("give --seconds a larger number");
  return measured;
}

std::string as_json(const Measured& m) {
  const nlohmann::ordered_json document = {{"open_ms", m.open_ms},
                                           {"first_batch_ms", m.first_batch_ms},
                                           {"samples", m.samples},
                                           {"seconds", m.seconds},
                                           {"samples_per_s", m.samples_per_s()},
                                           {"cpu_s_per_1k", m.cpu_s_per_1k()},
                                           {"peak_rss_mib", m.peak_rss_mib},
                                           {"workers", m.stats.workers},
                                           {"batches", m.stats.batches},
                                           {"wait_ms", m.stats.wait_ms},
                                           {"read_ms", m.stats.read_ms},
                                           {"decode_ms", m.stats.decode_ms},
                                           {"transform_ms", m.stats.transform_ms},
                                           {"cache_hits", m.stats.cache_hits},
                                           {"cache_misses", m.stats.cache_misses},
                                           {"cache_mib", static_cast<double>(m.stats.cache_bytes) / (1 << 20)},
                                           {"bad_samples", m.bad_samples}};
  return core::indented_json(document);
}

void print_table(const Measured& m) {
  core::print(stdout, "%s samples in %s, %s workers\n", core::format_count(m.samples).c_str(),
              core::format_duration(m.seconds).c_str(), core::format_count(m.stats.workers).c_str());
  core::print(stdout, "  opening              %.0f ms, then %.0f ms to the first batch\n", m.open_ms, m.first_batch_ms);
  core::print(stdout, "  samples/s            %.1f\n", m.samples_per_s());
  core::print(stdout, "  CPU s per 1,000      %.3f\n", m.cpu_s_per_1k());
  core::print(stdout, "  peak memory          %.0f MiB\n", m.peak_rss_mib);
  core::print(stdout, "  time of all threads  read %.0f %%, decode %.0f %%, transform %.0f %%\n",
              100 * m.share(m.stats.read_ms), 100 * m.share(m.stats.decode_ms), 100 * m.share(m.stats.transform_ms));
  if (const std::int64_t asked = m.stats.cache_hits + m.stats.cache_misses; asked > 0)
    core::print(stdout, "  cache                %.0f %% of %s samples, %s\n",
                100 * static_cast<double>(m.stats.cache_hits) / static_cast<double>(asked),
                core::format_count(asked).c_str(),
                core::format_bytes(static_cast<double>(m.stats.cache_bytes)).c_str());
  if (m.bad_samples > 0) core::print(stdout, "  bad samples          %s\n", core::format_count(m.bad_samples).c_str());
}

}  // namespace

int run_data_bench(const cli::EngineCall& call) {
  const experiment::Experiment& experiment = call.loaded.experiment;
  const dataset::LoaderOptions options{.seed = static_cast<std::uint64_t>(experiment.seed),
                                       .pin_memory = false,
                                       .workers = runtime::available_cores(),
                                       .tell = [](const std::string& text) { core::log().info(text); }};
  const Clock::time_point begin = Clock::now();
  const dataset::Datasets data = dataset::build(experiment.dataset, options);
  const double open_ms = 1000 * seconds_since(begin);
  Measured measured = measure(data, call.options<cli::DataBenchOptions>());
  measured.open_ms = open_ms;
  for (const dataset::BadSampleReport& report : data.bad_samples->take()) core::log().info(report.what);
  if (call.json)
    core::print(stdout, "%s\n", as_json(measured).c_str());
  else
    print_table(measured);
  return 0;
}

}  // namespace trainctl::engine

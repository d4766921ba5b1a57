// Reading all there is, to know before a run what a run would find out.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "data_tools/set_reader.h"
#include "data_tools/sharding.h"
#include "dataset/files/file_list.h"
#include "dataset/files/parallel.h"
#include "dataset/sources.h"

namespace trainctl::data_tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFaults = 10'000;  // that are listed

/// Returns the directories of these files that have an index.json.
std::set<fs::path> indexed_directories(const std::vector<std::string>& patterns, const std::string& ending) {
  std::set<fs::path> directories;
  if (patterns.empty()) return directories;
  for (const fs::path& file : dataset::expand_files(patterns, {{ending}}, "dataset"))
    if (fs::exists(file.parent_path() / "index.json")) directories.insert(file.parent_path());
  return directories;
}

std::set<fs::path> indexed_directories(const dataset::SourceConfig& source) {
  std::set<fs::path> directories;
  for (const dataset::IndexedFiles& files : config::facts_of(source).indexed_files)
    directories.merge(indexed_directories(files.patterns, files.ending));
  return directories;
}

class Verifier {
 public:
  explicit Verifier(std::int64_t threads) : threads_(threads) {}

  void check_shards(const fs::path& directory) {
    const auto index = core::parse_json_or_discard(core::read_file(directory / "index.json"));
    if (!index.is_object() || !index.contains("shards") || !index["shards"].is_array())
      return add((directory / "index.json").string(), "is damaged: it has no list of shards");
    const nlohmann::json& shards = index["shards"];
    dataset::for_each_in_parallel(static_cast<std::int64_t>(shards.size()), threads_, [&](std::int64_t i) {
      const nlohmann::json& shard = shards[static_cast<std::size_t>(i)];
      if (!shard.is_object()) return add((directory / "index.json").string(), "is damaged: a shard is no object");
      const fs::path file = directory / fs::path(shard.value("file", "")).filename();
      try {
        if (core::checksum_file(file) != shard.value("checksum", ""))
          add(file.string(), "its checksum isn't the one in index.json: the file was changed or damaged");
      } catch (const core::Error& error) {
        add(file.string(), error.what());
      }
    });
    report_.shards += static_cast<std::int64_t>(shards.size());
  }

  void check_samples(const dataset::Source& source) {
    const SetReader reader(source);
    std::atomic<std::int64_t> turned = 0;
    dataset::for_each_in_parallel(source.size(), threads_, [&](std::int64_t i) {
      try {
        if (reader.read(i).is_turned) ++turned;
      } catch (const std::exception& error) {
        add(reader.name(i), error.what());
      }
    });
    report_.samples += source.size();
    report_.turned += turned;
  }

  void add(const std::string& name, const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (report_.faults.size() < kMostFaults) report_.faults.push_back({name, what});
  }

  VerifyReport take() {
    std::sort(report_.faults.begin(), report_.faults.end(),
              [](const Fault& a, const Fault& b) { return std::tie(a.name, a.what) < std::tie(b.name, b.what); });
    return std::move(report_);
  }

 private:
  std::int64_t threads_;
  std::mutex mutex_;
  VerifyReport report_;
};

}  // namespace

VerifyReport verify_dataset(const dataset::DatasetConfig& config, std::int64_t threads) {
  const auto begin = std::chrono::steady_clock::now();
  Verifier verifier(threads);
  for (const fs::path& directory : indexed_directories(config.source)) verifier.check_shards(directory);
  try {
    const dataset::Sources sources = dataset::open_sources(config.source, {.evaluated = dataset::EvaluatedSet::test});
    verifier.check_samples(*sources.train);
    if (sources.eval) verifier.check_samples(*sources.eval);
    if (sources.test) verifier.check_samples(*sources.test);
  } catch (const core::Error& error) {
    verifier.add("dataset", error.text());  // it can't even be opened
  }
  VerifyReport report = verifier.take();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace trainctl::data_tools

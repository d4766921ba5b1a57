// Writes Weights & Biases' transaction log, as `wandb.init(mode="offline")` does: protobuf records of
// wandb_internal.proto in LevelDB's log format. `wandb sync` sends it.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <protozero/pbf_writer.hpp>

#include "core/version.h"
#include "tracking/trackers/delivered_file.h"
#include "tracking/trackers/leveldb_log.h"
#include "tracking/trackers/tracker_kinds.h"
#include "tracking/trackers/typed_json.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using protozero::pbf_tag_type;
using protozero::pbf_writer;

constexpr const char* kOfflineRun = "offline-run-";

/// Field numbers of the messages that we write, from wandb_internal.proto.
namespace record_field {
constexpr pbf_tag_type kNumber = 1;
constexpr pbf_tag_type kHistory = 2;
constexpr pbf_tag_type kSummary = 3;
constexpr pbf_tag_type kRun = 17;
constexpr pbf_tag_type kExit = 18;
constexpr pbf_tag_type kHeader = 21;
}  // namespace record_field
namespace header_field {
constexpr pbf_tag_type kVersionInfo = 1;
constexpr pbf_tag_type kProducer = 1;     // of VersionInfo
constexpr pbf_tag_type kMinConsumer = 2;  // of VersionInfo
}  // namespace header_field
namespace run_field {
constexpr pbf_tag_type kRunId = 1;
constexpr pbf_tag_type kEntity = 2;
constexpr pbf_tag_type kProject = 3;
constexpr pbf_tag_type kConfig = 4;
constexpr pbf_tag_type kDisplayName = 8;
constexpr pbf_tag_type kStartTime = 17;
}  // namespace run_field
namespace item_field {  // of ConfigItem, SummaryItem and HistoryItem
constexpr pbf_tag_type kKey = 1;
constexpr pbf_tag_type kNestedKey = 2;
constexpr pbf_tag_type kValueJson = 16;
}  // namespace item_field
constexpr pbf_tag_type kUpdate = 1;       // of ConfigRecord and SummaryRecord
constexpr pbf_tag_type kHistoryItem = 1;  // of HistoryRecord
constexpr pbf_tag_type kHistoryStep = 2;  // of HistoryRecord
constexpr pbf_tag_type kExitCode = 1;     // of RunExitRecord
constexpr pbf_tag_type kExitRuntime = 2;  // of RunExitRecord

/// The first version of wandb that reads such records.
constexpr const char* kMinConsumer = "0.70.0";

void add_item(pbf_writer& items, pbf_tag_type field, pbf_tag_type key_field, const std::string& key,
              const std::string& value_json) {
  pbf_writer item(items, field);
  item.add_string(key_field, key);
  item.add_string(item_field::kValueJson, value_json);
}

/// Returns eight letters and digits, as W&B names runs.
std::string wandb_run_id(const std::string& key) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::uint64_t number = std::stoull(key.empty() ? "0" : key, nullptr, 16);
  std::string id;
  for (int i = 0; i < 8; ++i, number /= kDigits.size()) id += kDigits[number % kDigits.size()];
  return id;
}

std::string utc_time(double unix_time) {
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d_%H%M%S", &utc);
  return text;
}

/// W&B's history has one row for each step: the records of a step go into one.
struct HistoryRow {
  std::int64_t step = 0;
  double time = 0;
  std::vector<std::pair<std::string, double>> values;
  ordered_json histograms = ordered_json::object();  // by name, as W&B's JSON
};

ordered_json to_json(const std::optional<HistoryRow>& row) {
  if (!row) return nullptr;
  return {{"step", row->step}, {"time", row->time}, {"values", row->values}, {"histograms", row->histograms}};
}

std::optional<HistoryRow> row_of(const ordered_json& json) {
  if (json.is_null()) return std::nullopt;
  HistoryRow row{.step = json.at("step"), .time = json.at("time"), .values = {}, .histograms = json.at("histograms")};
  for (const ordered_json& pair : json.at("values"))
    row.values.emplace_back(pair.at(0), pair.at(1).is_null() ? NAN : pair.at(1).get<double>());
  return row;
}

/// Returns a histogram as `wandb.Histogram.to_json` has it: the counts, and one more edge than these.
ordered_json wandb_histogram(const Histogram& histogram) {
  std::vector<double> edges;
  for (std::size_t i = 0; i <= histogram.counts.size(); ++i) edges.push_back(histogram.edge(i));
  return {{"_type", "histogram"}, {"values", histogram.counts}, {"bins", edges}};
}

class WandbLog final : public RunTracker {
 public:
  WandbLog(const TrackerTarget& target, const RunInfo& run) : target_(target), run_(run) {}

  bool open(Start start, const ordered_json& state) override {
    id_ = state.is_null() ? wandb_run_id(run_.key) : own_name(state, "id", "");
    const std::string folder =
        state.is_null() ? kOfflineRun + utc_time(run_.start_time) + "-" + id_ : own_name(state, "folder", kOfflineRun);
    file_.emplace(run_.directory / "wandb" / folder / ("run-" + id_ + ".wandb"));
    if (start == Start::goes_on) {
      number_ = state.at("number");
      pending_ = row_of(state.at("pending"));
      has_exit_ = state.at("has_exit");
      return file_->go_on(state.at("bytes"));
    }
    file_->begin();
    file_->append(wandb_log_header());
    write_header();
    write_run();
    return true;
  }

  bool add(const MetricRecord& record) override {
    if (has_exit_) return false;
    if (pending_ && pending_->step != record.step) write_row();
    if (!pending_)
      pending_ =
          HistoryRow{.step = record.step, .time = record.time, .values = {}, .histograms = ordered_json::object()};
    pending_->time = record.time;
    pending_->values.insert(pending_->values.end(), record.values.begin(), record.values.end());
    for (const auto& [name, histogram] : record.histograms) pending_->histograms[name] = wandb_histogram(histogram);
    return true;
  }

  ordered_json commit() override {
    file_->commit();
    return {{"id", id_},
            {"folder", file_->path().parent_path().filename().string()},
            {"bytes", file_->size()},
            {"number", number_},
            {"pending", to_json(pending_)},
            {"has_exit", has_exit_}};
  }

  ordered_json finish(const RunResult& result) override {
    if (has_exit_) return commit();
    if (pending_) write_row();
    write_summary(result);
    std::string message;
    pbf_writer exit(message);
    if (result.outcome == "failed") exit.add_int32(kExitCode, 1);
    exit.add_int32(kExitRuntime, static_cast<std::int32_t>(std::max(result.time - run_.start_time, 0.0)));
    write(record_field::kExit, message);
    has_exit_ = true;
    return commit();
  }

  std::string place() const override { return file_ ? file_->path().string() : ""; }

 private:
  void write_header() {
    std::string message;
    pbf_writer header(message);
    pbf_writer version(header, header_field::kVersionInfo);
    version.add_string(header_field::kProducer, "trainctl " + std::string(core::kVersion));
    version.add_string(header_field::kMinConsumer, kMinConsumer);
    version.commit();
    write(record_field::kHeader, message);
  }

  void write_run() {
    std::string message;
    pbf_writer run(message);
    run.add_string(run_field::kRunId, id_);
    if (!target_.entity.empty()) run.add_string(run_field::kEntity, target_.entity);
    run.add_string(run_field::kProject, target_.project.empty() ? run_.name : target_.project);
    {
      pbf_writer config(run, run_field::kConfig);
      const ordered_json typed = typed_config(run_.config);
      for (const auto& [key, value] : typed.items()) add_item(config, kUpdate, item_field::kKey, key, value.dump());
    }
    run.add_string(run_field::kDisplayName, run_.directory.filename().string());
    {
      pbf_writer time(run, run_field::kStartTime);
      time.add_int64(1, static_cast<std::int64_t>(run_.start_time));
      time.add_int32(2, static_cast<std::int32_t>(std::fmod(run_.start_time, 1) * 1e9));
    }
    write(record_field::kRun, message);
  }

  /// Writes the pending row into the history, and the same values into the summary, which holds the newest of each.
  void write_row() {
    std::vector<std::pair<std::string, std::string>> items;
    for (const auto& [name, value] : pending_->values) items.emplace_back(name, number_text(value, "NaN"));
    for (const auto& [name, json] : pending_->histograms.items()) items.emplace_back(name, json.dump());
    items.emplace_back("_timestamp", number_text(pending_->time, "NaN"));
    items.emplace_back("_runtime", number_text(pending_->time - run_.start_time, "NaN"));
    items.emplace_back("_step", std::to_string(pending_->step));
    std::string summary_message, history_message;
    pbf_writer summary(summary_message), history(history_message);
    for (const auto& [key, json] : items) {
      add_item(summary, kUpdate, item_field::kNestedKey, key, json);
      add_item(history, kHistoryItem, item_field::kNestedKey, key, json);
    }
    {
      pbf_writer step(history, kHistoryStep);
      step.add_int64(1, pending_->step);
    }
    write(record_field::kSummary, summary_message);
    write(record_field::kHistory, history_message);
    pending_.reset();
  }

  /// Writes the figures of summary.json under "summary/", beside the newest value of each metric.
  void write_summary(const RunResult& result) {
    std::string message;
    pbf_writer summary(message);
    const ordered_json flat = flat_values(result.summary);
    for (const auto& [key, value] : flat.items())
      add_item(summary, kUpdate, item_field::kNestedKey, "summary/" + key, value.dump());
    write(record_field::kSummary, message);
  }

  void write(pbf_tag_type field, const std::string& message) {
    std::string bytes;
    pbf_writer record(bytes);
    record.add_int64(record_field::kNumber, ++number_);
    record.add_message(field, message);
    file_->append(leveldb_record(bytes, file_->size()));
  }

  TrackerTarget target_;
  RunInfo run_;
  std::string id_;
  std::optional<DeliveredFile> file_;
  std::int64_t number_ = 0;
  std::optional<HistoryRow> pending_;
  bool has_exit_ = false;
};

}  // namespace

std::unique_ptr<RunTracker> make_wandb(const TrackerTarget& target, const RunInfo& run) {
  return std::make_unique<WandbLog>(target, run);
}

}  // namespace trainctl::tracking

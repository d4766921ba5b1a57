// Writes a run as TensorBoard's event files: curves, histograms, the config as text and hyperparameters, and at the end
// the evaluation's confusion matrix, metrics by class and samples.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>

#include "core/file.h"
#include "core/text.h"
#include "tracking/trackers/confusion_image.h"
#include "tracking/trackers/delivered_file.h"
#include "tracking/trackers/sample_predictions.h"
#include "tracking/trackers/tensorboard_events.h"
#include "tracking/trackers/tracker_kinds.h"
#include "tracking/trackers/typed_json.h"

namespace trainctl::tracking {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

constexpr const char* kEventFile = "events.out.tfevents.";

/// Returns the second in the name of an event file: events.out.tfevents.1795705608.host; 0 for other names.
std::int64_t second_in_name(const std::string& name) {
  return name.starts_with(kEventFile) ? std::atoll(name.c_str() + std::strlen(kEventFile)) : 0;
}

/// Returns a name that sorts after those of the files there, the order in which TensorBoard reads files.
std::string new_event_file(const fs::path& directory) {
  auto second = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  std::int64_t newest = second.count() - 1;
  if (fs::is_directory(directory))
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      newest = std::max(newest, second_in_name(entry.path().filename().string()));
  return std::string(kEventFile) + std::to_string(newest + 1) + "." + host_name();
}

/// Returns a table by class in Markdown; "" if the details have none.
std::string class_table(const ordered_json& details) {
  const ordered_json accuracy = details.value("per_class_accuracy", ordered_json::array());
  const ordered_json f1 = details.value("per_class_f1", ordered_json::array());
  const ordered_json names = details.value("class_names", ordered_json::array());
  if (!accuracy.is_array() || !f1.is_array() || !names.is_array() || accuracy.empty() || accuracy.size() != f1.size())
    return "";
  const auto cell = [](const ordered_json& value) {
    return value.is_number() ? core::format_digits(value.get<double>(), 4) : std::string("none");
  };
  std::string table = "| class | accuracy | F1 |\n|---|---|---|\n";
  for (std::size_t i = 0; i < accuracy.size(); ++i) {
    const std::string name = i < names.size() && names[i].is_string() ? names[i].get<std::string>() : std::to_string(i);
    table += "| " + name + " | " + cell(accuracy[i]) + " | " + cell(f1[i]) + " |\n";
  }
  return table;
}

class TensorBoardEvents final : public RunTracker {
 public:
  explicit TensorBoardEvents(const RunInfo& run) : run_(run), directory_(run.directory / "tensorboard") {}

  bool open(Start start, const ordered_json& state) override {
    const std::string former = state.is_null() ? "" : own_name(state, "file", kEventFile);
    if (start == Start::goes_on) {
      file_.emplace(directory_ / former);
      last_step_ = state.at("last_step");
      return file_->go_on(state.at("bytes"));
    }
    file_.emplace(directory_ / new_event_file(directory_));
    if (!former.empty()) replaced_ = directory_ / former;
    file_->begin();
    file_->append(version_record(run_.start_time));
    if (!former.empty()) file_->append(discard_record({.time = run_.start_time, .step = 0}));
    write_config();
    return true;
  }

  bool add(const MetricRecord& record) override {
    SummaryValues values;
    for (const auto& [name, value] : record.values) values.add_scalar(name, value);
    for (const auto& [name, histogram] : record.histograms) values.add_histogram(name, histogram);
    if (!values.is_empty()) file_->append(summary_record(values, {.time = record.time, .step = record.step}));
    last_step_ = record.step;
    return true;
  }

  ordered_json commit() override {
    file_->commit();
    if (!replaced_.empty()) fs::remove(replaced_);
    replaced_.clear();
    return {{"file", file_->path().filename().string()}, {"bytes", file_->size()}, {"last_step", last_step_}};
  }

  ordered_json finish(const RunResult& result) override {
    SummaryValues values;
    values.add_session_end(
        result.outcome == "failed" ? SummaryValues::SessionStatus::failure : SummaryValues::SessionStatus::success,
        result.time);
    add_evaluation(result.evaluation, values);
    add_sample_predictions(result.predictions, values);
    file_->append(summary_record(values, {.time = result.time, .step = last_step_}));
    return commit();
  }

  std::string place() const override { return directory_.string(); }

 private:
  void write_config() {
    SummaryValues values;
    const fs::path config = run_.directory / "config.yaml";
    if (fs::exists(config)) values.add_text("config", "```yaml\n" + core::read_file(config) + "```\n");
    values.add_session_start(typed_config(run_.config), run_.start_time);
    file_->append(summary_record(values, {.time = run_.start_time, .step = 0}));
  }

  static void add_evaluation(const ordered_json& evaluation, SummaryValues& values) {
    if (!evaluation.is_object()) return;
    const ordered_json details = evaluation.value("details", ordered_json());
    if (!details.is_object()) return;
    if (const std::string table = class_table(details); !table.empty()) values.add_text("eval/per_class", table);
    if (const auto confusion = details.find("confusion"); confusion != details.end())
      if (const std::optional<EncodedImage> image = confusion_image(*confusion))
        values.add_image("eval/confusion", *image);
  }

  RunInfo run_;
  fs::path directory_;
  std::optional<DeliveredFile> file_;
  fs::path replaced_;
  std::int64_t last_step_ = 0;
};

}  // namespace

std::unique_ptr<RunTracker> make_tensorboard(const TrackerTarget& /*target*/, const RunInfo& run) {
  return std::make_unique<TensorBoardEvents>(run);
}

}  // namespace trainctl::tracking
